"""Whether mpibed's point-to-point numbers are those of the method everybody knows."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from orchestrator import project, transport

ROUNDS = 11
SIZES = [1, 8, 64, 512, 4096, 32768, 262144, 1048576, 4194304]
_SOURCE = Path(__file__).parent / "osu_method.c"


def main() -> None:
    """one-way latency and bandwidth against the OSU method, same two ranks over libfabric shm"""
    with tempfile.TemporaryDirectory() as scratch:
        peer = Path(scratch) / "osu_method"
        bin_ = project.MPI_PREFIX / "bin"
        subprocess.run([bin_ / "mpicc", "-O2", "-o", peer, _SOURCE], check=True)
        for mode, metric in (("latency", "one_way_latency"), ("bandwidth", "bandwidth")):
            rounds = [(_ours(mode, metric), _theirs(peer, mode)) for _ in range(ROUNDS)]
            best = min if mode == "latency" else max
            for size in SIZES:
                ratios = sorted(ours[size] / theirs[size] for ours, theirs in rounds)
                undisturbed = best(ours[size] for ours, _ in rounds) / best(theirs[size] for _, theirs in rounds)
                spread = f"median {statistics.median(ratios):.3f}x ({ratios[0]:.3f} to {ratios[-1]:.3f})"
                print(
                    f"{mode} at {size} B: best of {ROUNDS} {undisturbed:.3f}x that of the OSU method, {spread}; "
                    "goal 0.95x to 1.05x"
                )


def _mpiexec(words: list[str]) -> list[str]:
    command = [str(project.MPI_PREFIX / "bin" / "mpiexec"), "-n", "2", *words]
    env = {**os.environ, **transport.ENVIRONMENT["ofi-shm"]}
    done = subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=env)
    return done.stdout.splitlines()


def _ours(mode: str, metric: str) -> dict[int, float]:
    """Mean over the repetitions, by size: the estimator of the peer, although mpibed reports medians."""
    sizes = ",".join(map(str, SIZES))
    lines = _mpiexec(
        [str(project.PROGRAMS / f"p2p_{mode}"), "--message-bytes", sizes, "--repetitions", "30", "--warmup", "5"]
    )
    found: dict[int, list[float]] = {size: [] for size in SIZES}
    for line in map(json.loads, lines):
        if line.get("metric") == metric and line["phase"] == "measure":
            found[line["message_bytes"]].append(line["value"])
    return {size: statistics.fmean(values) for size, values in found.items()}


def _theirs(program: Path, mode: str) -> dict[int, float]:
    lines = (line.split() for line in _mpiexec([str(program), mode, ",".join(map(str, SIZES))]))
    return {int(words[1]): float(words[2]) for words in lines if words and words[0] == mode}
