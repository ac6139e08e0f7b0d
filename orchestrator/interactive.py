"""Testbeds that stay: made by `up`, used by `exec`, removed by `down`; and `gc` for what dead runs left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator import backends, host, mpiexec_style, owner, records, runner, transport
from orchestrator.backends.base import LABEL_OWNER, LABEL_RUN, Backend, OnLine, Say
from orchestrator.errors import UsageError
from orchestrator.experiment import Experiment
from orchestrator.launch import Job, Outcome, launch


def up(experiment: Experiment, backend: Backend, say: Say) -> str:
    """Create the manifest's testbed and leave it; its run id."""
    backend.build(say)
    run = records.new_run_id()
    asked = experiment.manifest.testbed
    labels = {LABEL_RUN: run, LABEL_OWNER: owner.INTERACTIVE}
    backend.up(runner.spec_of(experiment, asked.nodes, asked.ranks_per_node), labels)
    return run


def execute(run: str | None, words: Sequence[str], chosen_transport: str, on_line: OnLine) -> Outcome:
    """Run an mpiexec-style command on a testbed that stays; a program that is a file here is put into the nodes."""
    command = mpiexec_style.parse(words)
    found, testbed = backends.testbed_of(run)
    program = Path(command.argv[0])
    first = testbed.put(program) if program.is_file() else command.argv[0]
    per_node = command.ranks_per_node or testbed.nodes[0].slots
    ranks = command.ranks or per_node * len(testbed.nodes)
    if len(testbed.nodes) > 1 and ranks > per_node * len(testbed.nodes):
        raise UsageError(
            f"{ranks} ranks do not fit on {len(testbed.nodes)} nodes with {per_node} each; give -ppn, or fewer with -n"
        )
    kind = transport.choose(chosen_transport, one_node=len(testbed.nodes) == 1, ranks=ranks, cores=host.cores())
    env = transport.ENVIRONMENT[kind] | command.env
    mark = f"{found.run}/exec/{records.new_run_id()}"
    return launch(testbed, Job((first, *command.argv[1:]), ranks, per_node, env, None, mark), on_line)


def down(run: str | None) -> list[str]:
    """Remove a testbed, a word per thing removed."""
    found, _ = backends.testbed_of(run)
    return backends.backend(found.backend).remove(found.run)


def collect_garbage() -> list[str]:
    """Remove whatever is labelled with an owner that no longer lives; a word per thing removed."""
    dead = {(found.backend, found.run) for found in backends.everything() if not owner.is_alive(found.owner)}
    return [removed for name, run in sorted(dead) for removed in backends.backend(name).remove(run)]
