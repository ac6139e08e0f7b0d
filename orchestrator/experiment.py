"""A manifest checked against the benchmarks there are: every parameter typed, every sweep spanned."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator import sweep, units
from orchestrator.families import BENCHMARKS, Benchmark, Parameter, Value
from orchestrator.manifest import BenchmarkUse, Manifest, Mistake, Source, default_label, unknown

# Axes every benchmark has: how much of the testbed a cell uses.
NODES = Parameter("nodes", 2, "nodes a cell runs on", minimum=1, maximum=256)
RANKS_PER_NODE = Parameter("ranks_per_node", 1, "ranks on each node", minimum=1, maximum=1024)
PLACEMENT = (NODES, RANKS_PER_NODE)


@dataclass(frozen=True)
class Use:
    """A benchmark of the manifest with all its points; a point has every parameter and the placement."""

    label: str
    benchmark: Benchmark
    points: tuple[dict[str, Value], ...]


@dataclass(frozen=True)
class Experiment:
    """A manifest that can be run."""

    manifest: Manifest
    source: Source
    uses: tuple[Use, ...]

    @property
    def path(self) -> Path:
        return self.source.path

    @property
    def reference(self) -> Path | None:
        """The CSV with the values a paper gives."""
        name = self.manifest.reference
        return self.path.parent / name if name else None


def resolve(source: Source) -> Experiment:
    """Every benchmark resolved; ManifestError lists all mistakes with their places."""
    mistakes: list[Mistake] = []
    uses = []
    taken: dict[str, int] = {}
    for index, use in enumerate(source.manifest.benchmarks):
        label = use.label or default_label(use.benchmark)
        at = ("benchmarks", index)
        if label in taken:
            mistakes.append(Mistake((*at, "benchmark"), f"a second benchmark is called {label!r}; give one a `label`"))
        taken[label] = index
        benchmark = BENCHMARKS.get(use.benchmark)
        if benchmark is None:
            mistakes.append(Mistake((*at, "benchmark"), unknown("benchmark", use.benchmark, list(BENCHMARKS))))
            continue
        resolver = _Resolver(use, benchmark, source.manifest, at)
        points = resolver.points()
        mistakes += resolver.mistakes
        uses.append(Use(label, benchmark, tuple(points)))
    mistakes += _choices("analysis", "model", source.manifest.analysis, (m for u in uses for m in u.benchmark.models))
    mistakes += _choices(
        "figures", "figure", source.manifest.figures, (f.name for u in uses for f in u.benchmark.figures)
    )
    experiment = Experiment(source.manifest, source, tuple(uses))
    mistakes += [Mistake(("reference",), text) for text in _reference_mistakes(experiment)]
    if mistakes:
        raise source.error(mistakes)
    return experiment


def _reference_mistakes(experiment: Experiment) -> Iterator[str]:
    """What is wrong with the reference: it must say which metric has which value where, in columns of the tables."""
    if experiment.reference is None:
        return
    try:
        with experiment.reference.open(newline="", encoding="utf-8") as file:
            header = next(csv.reader(file), [])
    except (OSError, UnicodeDecodeError) as error:
        yield f"reference {experiment.reference} cannot be read ({error}); name a CSV beside the manifest"
        return
    parameters = {p.name for use in experiment.uses for p in (*use.benchmark.parameters, *PLACEMENT)}
    allowed = ["metric", "value", "unit", "source", "label", "benchmark", *sorted(parameters)]
    for column in header:
        if column not in allowed:
            yield unknown(f"column of {experiment.manifest.reference}", column, allowed)
    for column in ("metric", "value"):
        if column not in header:
            yield f"{experiment.manifest.reference} has no column {column!r}, which a reference needs"


def _choices(key: str, kind: str, asked: list[str] | None, offered: Iterable[str]) -> list[Mistake]:
    allowed = list(dict.fromkeys(offered))
    return [
        Mistake((key, index), unknown(kind, name, allowed))
        for index, name in enumerate(asked or [])
        if name not in allowed
    ]


class _Resolver:
    """Resolves one benchmark of the manifest, gathering mistakes instead of stopping at the first."""

    def __init__(self, use: BenchmarkUse, benchmark: Benchmark, manifest: Manifest, at: tuple[str | int, ...]) -> None:
        self.use, self.benchmark, self.manifest, self.at = use, benchmark, manifest, at
        self.mistakes: list[Mistake] = []
        placement = PLACEMENT if benchmark.where == "nodes" else ()  # what runs on the host has no place to choose
        self.known = {parameter.name: parameter for parameter in (*benchmark.parameters, *placement)}

    def points(self) -> list[dict[str, Value]]:
        testbed, on_nodes = self.manifest.testbed, self.benchmark.where == "nodes"
        fixed = {p.name: p.default for p in self.benchmark.parameters} | {
            NODES.name: testbed.nodes if on_nodes else 1,
            RANKS_PER_NODE.name: testbed.ranks_per_node if on_nodes else 1,
        }
        for name, value in self.use.parameters.items():
            fixed.update((name, checked) for checked in self._values(name, [value], "parameters", name))
        matrix = {name: self._axis(name, "matrix") for name in self.use.sweep.matrix}
        zipped = {name: self._axis(name, "zip") for name in self.use.sweep.zip}
        self._no_name_twice()
        lengths = {name: len(values) for name, values in zipped.items()}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            self._mistake(f"zip axes must have as many values each; {found}", "sweep", "zip")
        elif len(set(zip(*zipped.values(), strict=True))) < max(lengths.values(), default=0):
            self._mistake("the zip axes give the same values twice; keep one of each", "sweep", "zip")
        for index, exclude in enumerate(self.use.sweep.exclude):
            self._expression(exclude.where, "sweep", "exclude", index, "where")
        return [] if self.mistakes else self._span(fixed, matrix, zipped)

    def _span(
        self, fixed: dict[str, Value], matrix: dict[str, list[Value]], zipped: dict[str, list[Value]]
    ) -> list[dict[str, Value]]:
        try:
            points = sweep.points(fixed, matrix, zipped, [exclude.where for exclude in self.use.sweep.exclude])
        except ValueError as error:
            self._mistake(str(error), "sweep")
            return []
        if not points:
            self._mistake("`exclude` drops every point of the sweep; loosen it", "sweep", "exclude")
        refusals = {
            reason
            for point in points
            if (reason := self.benchmark.refuse(point, int(point["nodes"]) * int(point["ranks_per_node"])))
        }
        for reason in sorted(refusals):
            self._mistake(f"{self.benchmark.name}: {reason}", "benchmark")
        return points

    def _axis(self, name: str, kind: str) -> list[Value]:
        axis = self.use.sweep.matrix[name] if kind == "matrix" else self.use.sweep.zip[name]
        try:
            raw = axis.expand()
        except ValueError as error:
            self._mistake(f"{name}: {error}", "sweep", kind, name)
            return []
        if not raw:
            self._mistake(f"the sweep of {name} is empty; give it at least one value", "sweep", kind, name)
        values = self._values(name, raw, "sweep", kind, name)
        if kind == "matrix" and len(set(values)) < len(values):
            self._mistake(f"the sweep of {name} has a value twice; keep one of each", "sweep", kind, name)
        return values

    def _values(self, name: str, raw: list[Value], *path: str | int) -> list[Value]:
        parameter = self.known.get(name)
        if parameter is None:
            kind = f"parameter of {self.benchmark.name}"
            self._mistake(unknown(kind, name, list(self.known)), *path)
            return []
        values = []
        for value in raw:
            try:
                values.append(parameter.check(_in_si(value, parameter.unit)))
            except ValueError as error:
                self._mistake(f"{name}: {error}", *path)
        return values

    def _no_name_twice(self) -> None:
        for kind, others in (
            ("matrix", self.use.parameters),
            ("zip", {**self.use.parameters, **self.use.sweep.matrix}),
        ):
            axes = self.use.sweep.matrix if kind == "matrix" else self.use.sweep.zip
            for name in axes:
                if name in others:
                    self._mistake(f"{name} is given twice; give it once", "sweep", kind, name)

    def _expression(self, text: str, *path: str | int) -> None:
        try:
            names = sweep.names_in(text)
        except ValueError as error:
            self._mistake(str(error), *path)
            return
        for name in sorted(names - set(self.known)):
            self._mistake(unknown(f"name in {text!r}:", name, list(self.known)), *path)

    def _mistake(self, text: str, *path: str | int) -> None:
        self.mistakes.append(Mistake((*self.at, *path), text))


def _in_si(value: Value, unit: str | None) -> Value:
    """A text with a unit as a number of the parameter's own."""
    if isinstance(value, str) and unit == "B":
        return units.parse_bytes(value)
    if isinstance(value, str) and unit == "s":
        return units.parse_seconds(value)
    return value
