"""What the command costs before it does anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.measure import alternate, ratio

ROUNDS = 10


def main() -> None:
    """`mpibed` against a Python that imports nothing"""
    folder = Path(sys.prefix) / "bin"
    quick = "experiments/quickstart.yaml"
    contenders = {
        "help": [folder / "mpibed", "--help"],
        "plan": [folder / "mpibed", "plan", quick],
        "python": [sys.executable, "-c", "pass"],
    }
    runs = {name: (lambda words=words: _run(words)) for name, words in contenders.items()}
    seconds = alternate(runs, ROUNDS)
    ratio("mpibed --help", seconds["help"], "python -c pass", seconds["python"], "at most 0.25 s")
    ratio("mpibed plan", seconds["plan"], "python -c pass", seconds["python"], "at most 0.6 s")


def _run(words: list[object]) -> None:
    subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
