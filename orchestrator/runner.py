"""From a plan and a testbed to raw records: the one place where benchmarks and backends meet.

    experiment + build -> plan -> run folder -> testbed -> launch after launch -> records

A launch that fails is recorded and the run goes on; a testbed that is lost ends the run. Whatever happens, what was
created is taken down.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orchestrator
from orchestrator import events, host, owner, plan, records, session
from orchestrator.backends.base import LABEL_OWNER, LABEL_RUN, Backend, Build, Testbed, TestbedSpec
from orchestrator.errors import MpibedError, UsageError
from orchestrator.events import Emit
from orchestrator.experiment import Experiment
from orchestrator.plan import Cell, Plan
from orchestrator.records import RunFolder
from orchestrator.session import Session

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
    needs_nodes = any(use.benchmark.where == "nodes" for use in experiment.uses)
    build = backend.build(lambda text: emit(events.Step(text))) if needs_nodes else Build("", "programs on this host")
    with _opened(experiment, backend.name, build, options, emit) as (folder, whole):
        folder.point_latest_here()
        todo = filtered(whole, options.only)
        finished = folder.finished()
        for warning in whole.warnings:
            emit(events.Warned(warning))
        wanted = set(_launches(todo))
        missing = wanted - finished
        emit(events.RunStarted(folder.run, str(folder.path), len(wanted), len(wanted & finished), whole.estimated_s))
        left = [(position, whole.cells[index], number) for position, (index, number) in enumerate(whole.order)
                if (whole.cells[index].id, number) in missing]  # fmt: skip
        lost = _Run(experiment, backend, build, folder, whole, emit).launch(left) if left else ""
    statuses = _statuses(folder)
    return Result(folder, statuses.count("ok"), len(statuses) - statuses.count("ok"), lost)


def spec_of(experiment: Experiment, nodes: int, ranks_per_node: int) -> TestbedSpec:
    """The testbed the manifest asks for."""
    asked = experiment.manifest.testbed
    return TestbedSpec(
        nodes,
        ranks_per_node,
        cpus=asked.resources.cpus,
        memory_bytes=asked.resources.memory,
        shared_memory_bytes=asked.shared_memory,
        shared_directory=any(use.benchmark.needs_shared_directory for use in experiment.uses),
    )


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
    folder = RunFolder.create(options.results, experiment.manifest.name, experiment.path, experiment.reference)
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


def _statuses(folder: RunFolder) -> list[str]:
    """The status of each launch's last attempt."""
    by_attempt = sorted(folder.launches(), key=lambda record: int(record["attempt"]))
    return list({(record["cell"]["id"], record["launch"]): str(record["status"]) for record in by_attempt}.values())


@dataclass(frozen=True)
class _Run:
    """What stays the same while the launches of a run are made."""

    experiment: Experiment
    backend: Backend
    build: Build
    folder: RunFolder
    plan: Plan
    emit: Emit

    def launch(self, left: list[tuple[int, Cell, int]]) -> str:
        """Make the launches that are left, on a testbed if any cell needs one; why it was lost, if it was."""
        if not self.plan.on_nodes:
            return self._launch_on(None, left)
        self.emit(events.Step(f"starting {self.plan.nodes} nodes on {self.backend.name}"))
        self.backend.remove(self.folder.run)  # what a killed mpibed left of it: nobody else has this run, it is locked
        labels = {LABEL_RUN: self.folder.run, LABEL_OWNER: owner.this_process()}
        spec = spec_of(self.experiment, self.plan.nodes, self.plan.ranks_per_node)
        testbed = self.backend.up(spec, labels)
        try:
            lost = self._launch_on(testbed, left)
        finally:
            with uninterrupted():
                remains = self._take_down(testbed)
        return lost or remains

    def _launch_on(self, testbed: Testbed | None, left: list[tuple[int, Cell, int]]) -> str:
        number = self.folder.store_session(session.describe(self.backend.name, self.build, testbed))
        here = Session(self.folder, testbed, number, self.plan.seed, self.experiment.manifest.timeout)
        for position, cell, launch in left:
            self.emit(events.LaunchStarted(cell.id, cell.label, launch, cell.shown_parameters()))
            record = here.launch(cell, launch, position)
            self.folder.store_launch(record)
            ended = (record["status"], record["reason"], record["duration_s"])
            self.emit(events.LaunchEnded(cell.id, cell.label, launch, *ended))
            if record["testbed_lost"]:
                return str(record["reason"])
        return ""

    def _take_down(self, testbed: Testbed) -> str:
        try:
            testbed.close()
        except MpibedError as error:  # must not hide why the run ended
            self.emit(events.Warned(f"the testbed could not be taken down: {error}"))
            return str(error)
        return ""
