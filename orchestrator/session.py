"""One invocation of mpibed on a run: the testbed it holds, and its launches, each as the record that is kept of it."""

from __future__ import annotations

import random
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import orchestrator
from orchestrator import host, observations, plan, records, transport
from orchestrator.backends.base import Build, Testbed
from orchestrator.errors import TestbedLost
from orchestrator.launch import Job, Outcome, launch
from orchestrator.plan import Cell
from orchestrator.records import RunFolder


@dataclass(frozen=True)
class Session:
    """Where launches go. `testbed` is None when no cell needs nodes; `seed` and `timeout_s` are the run's."""

    folder: RunFolder
    testbed: Testbed | None
    number: int
    seed: int
    timeout_s: float

    def launch(self, cell: Cell, number: int, position: int) -> dict[str, Any]:
        """One launch of the cell, at that position of the order, as its record. `testbed_lost` ends the run."""
        attempt = self.folder.next_attempt(cell.id, number)
        argv = self._argv(cell, random.Random(f"{self.seed}/{cell.id}/{number}"))
        env = transport.ENVIRONMENT[cell.transport]
        job = Job(argv, cell.ranks, cell.ranks_per_node, env, self.timeout_s, f"{self.folder.run}/{cell.id}/{number}")
        started, before, begin = records.now(), host.noise(), time.monotonic()
        lost = ""
        try:
            outcome = launch(self.testbed, job) if self.testbed and cell.on_nodes else _on_host(job)
        except TestbedLost as error:
            lost = str(error)
            outcome = Outcome(lost, duration_s=time.monotonic() - begin)
        reading = observations.read(outcome.stdout, cell)
        own_word = reading.reason if reading.check or not outcome.reason else ""
        reason = own_word or outcome.reason
        return {
            "schema": records.SCHEMA,
            "run": self.folder.run,
            "session": self.number,
            "cell": plan.cell_to_json(cell),
            "launch": number,
            "attempt": attempt,
            "position": position,
            "seed": self.seed,
            "status": "failed" if reason else "ok",
            "reason": reason,
            "testbed_lost": bool(lost),
            "started": started,
            "duration_s": outcome.duration_s,
            "exit_code": outcome.exit_code,
            "command": list(argv),
            "environment": dict(env),
            "host": {"before": before, "after": host.noise()},
            "program": reading.program,
            "check": reading.check,
            "observations": reading.observations,
            "stdout": reading.other,
            "stderr": outcome.stderr,
        }

    def _argv(self, cell: Cell, shuffle: random.Random) -> tuple[str, ...]:
        """The program's command line; looped values in an order of the launch's own, so that drift favours none."""
        benchmark = cell.description
        parameters = dict(cell.parameters)
        if benchmark.loops_over and isinstance(values := parameters[benchmark.loops_over], tuple):
            parameters[benchmark.loops_over] = tuple(shuffle.sample(values, len(values)))
        words = [*benchmark.arguments(parameters), "--repetitions", str(cell.repetitions), "--warmup", str(cell.warmup)]
        if self.testbed is None or not cell.on_nodes:
            return (sys.executable, "-m", benchmark.program, *words)
        if benchmark.needs_shared_directory:
            words += ["--directory", self.testbed.install.shared]
        return (f"{self.testbed.install.programs}/{benchmark.program}", *words)


def describe(backend: str, build: Build, testbed: Testbed | None) -> dict[str, Any]:
    """What is kept of a session: who began it, with what, on which nodes."""
    nodes = (
        [{"node": n.name, "facts": host.facts(testbed, n) | testbed.facts(n)} for n in testbed.nodes] if testbed else []
    )
    return {
        "started": records.now(),
        "backend": backend,
        "build": {"identity": build.identity, "description": build.description},
        "command": shlex.join(["mpibed", *sys.argv[1:]]),
        "mpibed_version": orchestrator.__version__,
        "nodes": nodes,
    }


def _on_host(job: Job) -> Outcome:
    """Run a program that needs no nodes, here; it is one process, so ending it ends all of it."""
    begin = time.monotonic()
    try:
        done = subprocess.run(
            job.argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=job.timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        return Outcome(f"timed out after {error.timeout:g} s", duration_s=error.timeout)
    reason = f"the program ended with exit code {done.returncode}" if done.returncode else ""
    duration_s = time.monotonic() - begin
    return Outcome(reason, done.returncode, duration_s, done.stdout.splitlines(), done.stderr.splitlines())
