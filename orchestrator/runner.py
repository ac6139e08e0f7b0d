"""From a plan and a testbed to raw records: the one place where benchmarks and backends meet.

    experiment + build -> plan -> run folder -> testbed -> launch after launch -> records

A launch that fails is recorded and the run goes on; a testbed that is lost ends the run. Whatever happens, what was
created is taken down.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orchestrator
from orchestrator import events, host, observations, owner, plan, records, transport
from orchestrator.backends.base import LABEL_OWNER, LABEL_RUN, Backend, Build, Testbed, TestbedSpec
from orchestrator.errors import MpibedError, TestbedLost, UsageError
from orchestrator.events import Emit
from orchestrator.experiment import Experiment
from orchestrator.launch import Job, launch
from orchestrator.plan import Cell, Plan
from orchestrator.records import RunFolder

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Options:
    """How to run. `resume`: True continues the latest run, False starts a new one, None does what fits."""

    results: Path
    seed: int | None = None
    only: str | None = None
    resume: bool | None = None


@dataclass(frozen=True)
class Result:
    """What came of it. `lost` says why the run ended early, if it did."""

    folder: RunFolder
    ok: int
    failed: int
    lost: str = ""


def run(experiment: Experiment, backend: Backend, options: Options, emit: Emit) -> Result:
    """Run what is not finished yet of the experiment on the backend."""
    build = backend.build(lambda text: emit(events.Step(text)))
    with _opened(experiment, backend.name, build, options, emit) as (folder, whole):
        todo = filtered(whole, options.only)
        finished = folder.finished()
        for warning in whole.warnings:
            emit(events.Warned(warning))
        wanted = set(_launches(todo))
        missing = wanted - finished
        emit(events.RunStarted(folder.run, str(folder.path), len(wanted), len(wanted & finished), whole.estimated_s))
        left = [(position, whole.cells[index], number) for position, (index, number) in enumerate(whole.order)
                if (whole.cells[index].id, number) in missing]  # fmt: skip
        lost = _run_launches(experiment, backend, build, folder, whole, left, emit) if left else ""
        folder.point_latest_here()
    statuses = [record["status"] for record in _last_attempts(folder)]
    return Result(folder, statuses.count("ok"), len(statuses) - statuses.count("ok"), lost)


def spec_of(experiment: Experiment, nodes: int, ranks_per_node: int) -> TestbedSpec:
    """The testbed the manifest asks for."""
    asked = experiment.manifest.testbed
    return TestbedSpec(nodes, ranks_per_node, asked.resources.cpus, asked.resources.memory, asked.shared_memory)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the block is through: cleaning up is not to be cut short.

    By handlers, not by a mask: a signal that this thread masks goes to another one, and is handled here all the same.
    """
    held: list[int] = []
    before = {number: signal.signal(number, lambda number, _: held.append(number)) for number in _INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])


def filtered(whole: Plan, only: str | None) -> Plan:
    """The plan of the cells that `only` holds for; UsageError when it makes no sense or matches none."""
    if only is None:
        return whole
    try:
        todo = plan.only(whole, only)
    except ValueError as error:
        raise UsageError(f"--only: {error}") from error
    if not todo.order:
        raise UsageError(f"--only {only!r} matches none of the {len(whole.cells)} cells; see `mpibed plan`")
    return todo


@contextlib.contextmanager
def _opened(
    experiment: Experiment, backend: str, build: Build, options: Options, emit: Emit
) -> Iterator[tuple[RunFolder, Plan]]:
    """The run to write to, locked, and its plan: an unfinished run of the same cells, or a new one."""
    seed = options.seed if options.seed is not None else experiment.manifest.seed
    fresh = plan.make(
        experiment, backend=backend, identity=build.identity, cores=host.cores(),
        seed=secrets.randbelow(2**31) if seed is None else seed,
    )  # fmt: skip
    latest = next(iter(records.runs(options.results, experiment.manifest.name)), None)
    if latest is None and options.resume:
        raise UsageError(f"there is no run under {options.results / experiment.manifest.name} to go on with")
    if latest is not None and options.resume is not False:
        stored = plan.from_json(latest.plan())
        same = set(_launches(stored)) == set(_launches(fresh)) and options.seed in (None, stored.seed)
        if options.resume and not same:
            raise UsageError(
                f"the latest run {latest.path} was of other cells: the manifest, the scale, the seed, the programs or "
                "the image have changed since; start a new one with --fresh"
            )
        unfinished = same and set(_launches(stored)) > latest.finished()
        if options.resume or (unfinished and not latest.is_being_written()):
            emit(events.Step(f"going on with run {latest.run}"))
            with latest.locked():
                yield latest, stored
            return
    filtered(fresh, options.only)  # refuse before anything is created
    folder = RunFolder.create(options.results, experiment.manifest.name, experiment.path)
    with folder.locked():  # before there is a plan, which makes it a run that others find
        folder.store_plan(_plan_document(experiment, backend, build, fresh, folder.run))
        yield folder, fresh


def _launches(of: Plan) -> list[tuple[str, int]]:
    return [(of.cells[index].id, launch) for index, launch in of.order]


def _plan_document(experiment: Experiment, backend: str, build: Build, made: Plan, run: str) -> dict[str, Any]:
    manifest = experiment.manifest
    return {
        "schema": records.SCHEMA,
        "run": run,
        "experiment": manifest.name,
        "title": manifest.title or manifest.name,
        "description": manifest.description,
        "scale": experiment.source.scale,
        "backend": backend,
        "build": {"identity": build.identity, "description": build.description},
        "mpibed_version": orchestrator.__version__,
        "created": records.now(),
        "launches": manifest.launches,
        "timeout_s": manifest.timeout,
        "analysis": manifest.analysis,
        "figures": manifest.figures,
        **plan.to_json(made),
    }


def _last_attempts(folder: RunFolder) -> list[dict[str, Any]]:
    last = {(record["cell"]["id"], record["launch"], record["attempt"]): record for record in folder.launches()}
    newest = {(cell, number): last[(cell, number, attempt)] for cell, number, attempt in sorted(last)}
    return list(newest.values())


def _run_launches(
    experiment: Experiment,
    backend: Backend,
    build: Build,
    folder: RunFolder,
    whole: Plan,
    left: list[tuple[int, Cell, int]],
    emit: Emit,
) -> str:
    """Run the launches that are left; why the testbed was lost, if it was."""
    emit(events.Step(f"starting {whole.nodes} nodes on {backend.name}"))
    labels = {LABEL_RUN: folder.run, LABEL_OWNER: owner.this_process()}
    testbed = backend.up(spec_of(experiment, whole.nodes, whole.ranks_per_node), labels)
    lost = ""
    try:
        session = folder.store_session(_session(backend.name, build, testbed))
        for position, cell, number in left:
            emit(events.LaunchStarted(cell.id, cell.label, number, cell.shown_parameters()))
            record = _run_launch(experiment, folder, testbed, cell, number, position, whole.seed, session)
            folder.store_launch(record)
            ended = (record["status"], record["reason"], record["duration_s"])
            emit(events.LaunchEnded(cell.id, cell.label, number, *ended))
            if record["testbed_lost"]:
                lost = str(record["reason"])
                break
    finally:
        with uninterrupted():
            try:
                testbed.close()
            except MpibedError as error:  # must not hide why the run ended
                emit(events.Warned(f"the testbed could not be taken down: {error}"))
                lost = lost or str(error)
    return lost


def _session(backend: str, build: Build, testbed: Testbed) -> dict[str, Any]:
    return {
        "started": records.now(),
        "backend": backend,
        "build": {"identity": build.identity, "description": build.description},
        "command": shlex.join(["mpibed", *sys.argv[1:]]),
        "mpibed_version": orchestrator.__version__,
        "nodes": [{"node": n.name, "facts": host.facts(testbed, n) | testbed.facts(n)} for n in testbed.nodes],
    }


def _run_launch(
    experiment: Experiment,
    folder: RunFolder,
    testbed: Testbed,
    cell: Cell,
    number: int,
    position: int,
    seed: int,
    session: int,
) -> dict[str, Any]:
    """One launch, as the record that is kept of it."""
    attempt = folder.next_attempt(cell.id, number)
    env = transport.ENVIRONMENT[cell.transport]
    argv = _argv(testbed, cell, random.Random(f"{seed}/{cell.id}/{number}"))
    job = Job(
        argv, cell.ranks, cell.ranks_per_node, env, experiment.manifest.timeout, f"{folder.run}/{cell.id}/{number}"
    )
    started, before, begin = records.now(), host.noise(), time.monotonic()
    lost = ""
    try:
        outcome = launch(testbed, job)
    except TestbedLost as error:
        lost = str(error)
    after = host.noise()
    record: dict[str, Any] = {
        "schema": records.SCHEMA,
        "run": folder.run,
        "session": session,
        "cell": plan.cell_to_json(cell),
        "launch": number,
        "attempt": attempt,
        "position": position,
        "seed": seed,
        "started": started,
        "command": list(argv),
        "environment": dict(env),
        "host": {"before": before, "after": after},
        "testbed_lost": bool(lost),
    }
    if lost:
        nothing = {"program": {}, "observations": [], "check": "", "stdout": [], "stderr": []}
        ending = {"status": "failed", "reason": lost, "exit_code": None, "duration_s": time.monotonic() - begin}
        return record | ending | nothing
    reading = observations.read(outcome.stdout, cell)
    own_word = reading.reason if reading.check or not outcome.reason else ""
    reason = own_word or outcome.reason
    return record | {
        "status": "failed" if reason else "ok",
        "reason": reason,
        "exit_code": outcome.exit_code,
        "duration_s": outcome.duration_s,
        "program": reading.program,
        "check": reading.check,
        "observations": reading.observations,
        "stdout": reading.other,
        "stderr": outcome.stderr,
    }


def _argv(testbed: Testbed, cell: Cell, shuffle: random.Random) -> tuple[str, ...]:
    """The program's command line; looped values in an order of the launch's own, so that drift favours none."""
    parameters = dict(cell.parameters)
    looped = cell.description.loops_over
    if looped and isinstance(values := parameters[looped], tuple):
        parameters[looped] = tuple(shuffle.sample(values, len(values)))
    counts = ["--repetitions", str(cell.repetitions), "--warmup", str(cell.warmup)]
    return (f"{testbed.install.programs}/{cell.description.program}", *cell.description.arguments(parameters), *counts)
