"""The plan: every cell of an experiment, the order of its launches, and what to expect of them.

A cell is one point of the sweep. Values of the parameter that a program loops over share a cell, because they share a
launch. A cell's id is a hash of all that can change its result; it is the same on every machine with the same build.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from orchestrator import project, sweep, transport
from orchestrator.digest import sha256_of_files
from orchestrator.experiment import PLACEMENT, Experiment, Use
from orchestrator.families import BENCHMARKS, Benchmark, Value

SCHEMA = 1
LAUNCH_COST_S = {"local": 0.2, "docker": 0.7}  # an empty launch, seen on two cores; for estimates only


@dataclass(frozen=True)
class Cell:
    """One fully resolved point. `parameters` are the benchmark's; a looped one holds all its values."""

    id: str
    label: str
    benchmark: str
    parameters: dict[str, Value | tuple[Value, ...]]
    nodes: int
    ranks_per_node: int
    transport: str
    fabric: str
    mode: str
    repetitions: int
    warmup: int

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def on_nodes(self) -> bool:
        """Whether it needs a testbed."""
        return self.description.where == "nodes"

    @property
    def description(self) -> Benchmark:
        return BENCHMARKS[self.benchmark]

    def shown_parameters(self) -> str:
        """`window=64 message_bytes=23 values`, for people."""
        shown = {
            n: f"{len(v)} values" if isinstance(v, tuple) and len(v) > 1 else _one(v)
            for n, v in self.parameters.items()
        }
        return " ".join(f"{name}={value}" for name, value in (shown | {"ranks": str(self.ranks)}).items())


@dataclass(frozen=True)
class Plan:
    """Cells, and `order`: one (cell index, launch) after the other."""

    cells: tuple[Cell, ...]
    order: tuple[tuple[int, int], ...]
    seed: int
    warnings: tuple[str, ...]
    estimated_s: float

    @property
    def on_nodes(self) -> tuple[Cell, ...]:
        """The cells that need a testbed."""
        return tuple(cell for cell in self.cells if cell.on_nodes)

    @property
    def nodes(self) -> int:
        """How many nodes the testbed needs; 0 for none."""
        return max((cell.nodes for cell in self.on_nodes), default=0)

    @property
    def ranks_per_node(self) -> int:
        return max((cell.ranks_per_node for cell in self.on_nodes), default=0)


def make(experiment: Experiment, *, backend: str, identity: str, seed: int, cores: int) -> Plan:
    """The plan on a backend whose build has that identity, on a host with so many cores."""
    place = _Place(backend, identity, cores)
    cells = tuple(cell for use in experiment.uses for cell in _cells(experiment, use, place))
    shuffle = random.Random(seed)
    order = []
    for launch in range(experiment.manifest.launches):  # in rounds, so that the launches of a cell spread over the run
        indices = list(range(len(cells)))
        shuffle.shuffle(indices)
        order += [(index, launch) for index in indices]
    warnings = _warnings(experiment, cells, backend, cores)
    seconds = sum(cell.description.estimate(cell.parameters, cell.repetitions + cell.warmup) for cell in cells)
    estimated = experiment.manifest.launches * (seconds + len(cells) * LAUNCH_COST_S.get(backend, 1.0))
    return Plan(cells, tuple(order), seed, warnings, estimated)


def only(plan: Plan, expression: str) -> Plan:
    """The plan without the launches whose cell does not match. Names: parameters, placement, benchmark, label.

    A looped parameter counts as its list of values, so write `8 in message_bytes`.
    """
    allowed = {name for cell in plan.cells for name in _names(cell)}
    unknown = sweep.names_in(expression) - allowed
    if unknown:
        raise ValueError(
            f"unknown name {sorted(unknown)[0]!r} in {expression!r}; allowed: {', '.join(sorted(allowed))}"
        )
    holds = sweep.condition(expression)
    kept = {
        index
        for index, cell in enumerate(plan.cells)
        if set(_names(cell)) >= sweep.names_in(expression) and holds(_names(cell))
    }
    return replace(plan, order=tuple(step for step in plan.order if step[0] in kept))


def _names(cell: Cell) -> dict[str, Any]:
    placement = {"nodes": cell.nodes, "ranks_per_node": cell.ranks_per_node, "ranks": cell.ranks}
    return {**cell.parameters, **placement, "benchmark": cell.benchmark, "label": cell.label}


def to_json(plan: Plan) -> dict[str, Any]:
    """As stored in plan.json."""
    return {
        "cells": [cell_to_json(cell) for cell in plan.cells],
        "order": [[plan.cells[index].id, launch] for index, launch in plan.order],
        "seed": plan.seed,
        "warnings": list(plan.warnings),
        "estimated_s": plan.estimated_s,
    }


def cell_to_json(cell: Cell) -> dict[str, Any]:
    """As stored in plan.json and in each record."""
    return asdict(cell)


def from_json(stored: Mapping[str, Any]) -> Plan:
    """The plan that `to_json` stored."""
    cells = tuple(
        Cell(**{**c, "parameters": {n: tuple(v) if isinstance(v, list) else v for n, v in c["parameters"].items()}})
        for c in stored["cells"]
    )
    index = {cell.id: number for number, cell in enumerate(cells)}
    order = tuple((index[cell], launch) for cell, launch in stored["order"])
    return Plan(cells, order, stored["seed"], tuple(stored["warnings"]), stored["estimated_s"])


@dataclass(frozen=True)
class _Place:
    """Where cells run: with `identity`, all that decides their results but is not in the manifest."""

    backend: str
    identity: str
    cores: int


def _cells(experiment: Experiment, use: Use, place: _Place) -> list[Cell]:
    if use.benchmark.where == "host":
        models = sha256_of_files((project.ROOT / "orchestrator" / "models").glob("*.py"))
        place = _Place("host", f"models:{models[:16]}", place.cores)
    looped = use.benchmark.loops_over
    groups: dict[tuple[tuple[str, Value], ...], list[Value]] = {}
    for point in use.points:
        group = tuple((name, value) for name, value in point.items() if name != looped)
        groups.setdefault(group, []).extend([point[looped]] if looped else [])
    return [_cell(experiment, use, dict(group), values, place) for group, values in groups.items()]


def _cell(experiment: Experiment, use: Use, point: dict[str, Value], values: list[Value], place: _Place) -> Cell:
    manifest = experiment.manifest
    nodes, ranks_per_node = (int(point.pop(parameter.name)) for parameter in PLACEMENT)
    parameters: dict[str, Value | tuple[Value, ...]] = dict(point)
    if use.benchmark.loops_over:
        parameters[use.benchmark.loops_over] = tuple(values)
    chosen = transport.choose(
        manifest.testbed.transport,
        one_node=place.backend == "local",
        ranks=nodes * ranks_per_node,
        cores=place.cores,
    )
    cell = Cell(
        id="",
        label=use.label,
        benchmark=use.benchmark.name,
        parameters=dict(sorted(parameters.items())),
        nodes=nodes,
        ranks_per_node=ranks_per_node,
        transport=transport.NONE if place.backend == "host" else chosen,
        fabric=manifest.fabric,
        mode=manifest.mode,
        repetitions=manifest.repetitions,
        warmup=manifest.warmup,
    )
    return replace(cell, id=_content_id(cell, manifest.testbed.model_dump(), place))


def _content_id(cell: Cell, testbed: dict[str, Any], place: _Place) -> str:
    content = asdict(cell) | {
        "schema": SCHEMA,
        "backend": place.backend,
        "build": place.identity,
        "environment": transport.ENVIRONMENT[cell.transport],
        "resources": testbed["resources"],
        "shared_memory": testbed["shared_memory"],
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _warnings(experiment: Experiment, cells: tuple[Cell, ...], backend: str, cores: int) -> tuple[str, ...]:
    warnings = []
    crowded = sorted({cell.ranks for cell in cells if cell.ranks > cores})
    if crowded:
        warnings.append(
            f"oversubscribed: {_one(tuple(crowded))} ranks share {cores} cores, so wall-clock times include waiting "
            "for a core and say little about a network; use at most as many ranks as cores where times matter"
        )
    if experiment.manifest.launches < 6 and any(cell.on_nodes for cell in cells):
        warnings.append(
            f"too few launches ({experiment.manifest.launches}) for a 95 % interval of the median, which takes 6; "
            "the range is shown instead, with its true level"
        )
    limits = experiment.manifest.testbed
    if backend == "local" and (limits.resources.cpus or limits.resources.memory or limits.shared_memory):
        warnings.append("the local backend sets no limits: `resources` and `shared_memory` have no effect on it")
    return tuple(warnings)


def _one(value: Value | tuple[Value, ...]) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
