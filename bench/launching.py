"""What it costs to start ranks in containers rather than processes."""

from __future__ import annotations

import os
import subprocess

from bench.measure import alternate, ratio
from orchestrator import owner, project, records, transport
from orchestrator.backends.base import LABEL_OWNER, LABEL_RUN, Testbed, TestbedSpec
from orchestrator.backends.docker import DockerBackend
from orchestrator.launch import Job, launch

RANKS = 8
ROUNDS = 5
_WORDS = ("--message-bytes", "8", "--pairs", str(RANKS // 2), "--exchanges", "1", "--repetitions", "1", "--warmup", "1")


def main() -> None:
    """one launch over 8 containers against mpiexec of 8 local ranks"""
    backend = DockerBackend()
    backend.build(print)
    labels = {LABEL_RUN: records.new_run_id(), LABEL_OWNER: owner.this_process()}
    testbed = backend.up(TestbedSpec(RANKS, 1), labels)
    try:
        contenders = {"containers": lambda: _in_containers(testbed), "processes": _as_processes}
        seconds = alternate(contenders, ROUNDS)
    finally:
        testbed.close()
    ratio("launch over 8 containers", seconds["containers"], "mpiexec -n 8", seconds["processes"])


def _in_containers(testbed: Testbed) -> None:
    program = f"{testbed.install.programs}/p2p_latency"
    job = Job((program, *_WORDS), RANKS, 1, transport.ENVIRONMENT["tcp"], 60.0, "bench")
    outcome = launch(testbed, job)
    assert not outcome.reason, outcome


def _as_processes() -> None:
    command = [project.MPI_PREFIX / "bin" / "mpiexec", "-n", str(RANKS), project.PROGRAMS / "p2p_latency", *_WORDS]
    env = {**os.environ, **transport.ENVIRONMENT["tcp"]}
    subprocess.run(list(map(str, command)), check=True, capture_output=True, stdin=subprocess.DEVNULL, env=env)
