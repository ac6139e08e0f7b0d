"""What mpibed adds to the launches it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import ratio
from orchestrator import project, transport

CELLS = 100
ROUNDS = 3
_MANIFEST = f"""
schema: 1
name: harness
testbed: {{nodes: 2, transport: native}}
benchmarks:
  - benchmark: p2p.latency
    sweep:
      matrix:
        message_bytes: [8]
        exchanges: {{range: {{from: 1001, to: {1000 + CELLS}}}}}
launches: 1
repetitions: 20
warmup: 2
"""


def main() -> None:
    """a sweep of 100 cells on the local backend against a shell loop of the same mpiexec lines"""
    with tempfile.TemporaryDirectory() as scratch:
        ours, whole, loop = [], [], []
        for _ in range(ROUNDS):
            launches_s, whole_s = _mpibed(Path(scratch))
            ours.append(launches_s)
            whole.append(whole_s)
            loop.append(_shell_loop(Path(scratch)))
        ratio("launches", ours, "shell loop", loop, "at most 1.15x")
        ratio("the whole command, with start-up, tables, figures and page", whole, "shell loop", loop)


def _mpibed(scratch: Path) -> tuple[float, float]:
    """Seconds from the start of the run to the end of its last launch, and of the whole command."""
    (scratch / "m.yaml").write_text(_MANIFEST)
    command = [Path(sys.prefix) / "bin" / "mpibed", "run", "m.yaml", "--backend", "local", "--fresh", "--json"]
    begin = time.perf_counter()
    started = ended = 0.0
    with subprocess.Popen(list(map(str, command)), cwd=scratch, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        for line in run.stdout:
            event = json.loads(line)["event"]
            if event == "RunStarted":
                started = time.perf_counter()
            elif event == "LaunchEnded":
                ended = time.perf_counter()
    assert run.returncode == 0
    return ended - started, time.perf_counter() - begin


def _shell_loop(scratch: Path) -> float:
    """Seconds of the loop a person would write."""
    program, mpiexec = project.PROGRAMS / "p2p_latency", project.MPI_PREFIX / "bin" / "mpiexec"
    arguments = "--message-bytes 8 --pairs 1 --repetitions 20 --warmup 2"
    line = f"{mpiexec} -n 2 {program} --exchanges $n {arguments} > {scratch}/out.$n"
    script = f"for n in $(seq 1001 {1000 + CELLS}); do {line} || exit 1; done"
    begin = time.perf_counter()
    env = {**os.environ, **transport.ENVIRONMENT["native"]}
    subprocess.run(["bash", "-c", script], check=True, stdin=subprocess.DEVNULL, env=env)
    return time.perf_counter() - begin
