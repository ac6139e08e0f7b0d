"""What a benchmark is, as a pure description: program, parameters, metrics, figures.

A family file declares its benchmarks with these types and nothing else; manifests are checked against them, the runner
makes command lines from them, tables take their columns from them, the report its axes. Nothing here runs anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from orchestrator import units

Value = int | float | str | bool
Point = Mapping[str, Value]
Parameters = Mapping[str, Value | tuple[Value, ...]]  # of a cell: a looped parameter has all its values


@dataclass(frozen=True)
class Parameter:
    """One setting of a benchmark. `unit` is SI or None (a count, a name); bounds are inclusive.

    A name means the same type and unit in every family, because it is one column of the tables.
    """

    name: str
    default: Value
    help: str
    unit: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[Value, ...] = ()

    @property
    def kind(self) -> type[Value]:
        return type(self.default)

    def check(self, value: object) -> Value:
        """The value, or ValueError with what was found and what is allowed."""
        kind = self.kind
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not kind:
            raise ValueError(f"{value!r} is not {_A_KIND[kind]}; {self.allowed}")
        if self.choices and value not in self.choices:
            raise ValueError(f"{value!r} is not one of the choices; {self.allowed}")
        if isinstance(value, int | float):
            too_small = self.minimum is not None and value < self.minimum
            too_large = self.maximum is not None and value > self.maximum
            if too_small or too_large or value != value:
                raise ValueError(f"{value!r} is out of range; {self.allowed}")
        return value

    @property
    def allowed(self) -> str:
        """The range or the choices, in words."""
        if self.choices:
            return f"allowed: {', '.join(map(str, self.choices))}"
        if self.minimum is not None and self.maximum is not None:
            return f"allowed: {self._shown(self.minimum)} to {self._shown(self.maximum)}"
        if self.minimum is not None:
            return f"allowed: {self._shown(self.minimum)} or more"
        if self.maximum is not None:
            return f"allowed: {self._shown(self.maximum)} or less"
        return f"allowed: {_A_KIND[self.kind]}{f' of {self.unit}' if self.unit else ''}"

    def _shown(self, number: float) -> str:
        if self.unit == "B":
            return units.show_bytes(int(number))
        return f"{number:,.12g}{f' {self.unit}' if self.unit else ''}"


_A_KIND: dict[type[Value], str] = {int: "a whole number", float: "a number", str: "a name", bool: "true or false"}


@dataclass(frozen=True)
class Metric:
    """A quantity of a benchmark: SI unit, which direction is better, and how exactly it is defined.

    It is observed by the program or, if `derived`, made from other metrics by one of the benchmark's derivations.
    """

    name: str
    unit: str
    better: Literal["lower", "higher"]
    help: str
    derived: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure of a benchmark: a metric over a swept parameter, one line per remaining combination of parameters."""

    name: str
    title: str
    x: str
    metric: str
    x_log: bool = True
    y_log: bool = True
    model: str | None = None  # the analysis whose prediction is drawn beside the data


def _a_tenth_of_a_second(_parameters: Parameters, _repetitions: int) -> float:
    return 0.1


def _any_ranks(_point: Point, _ranks: int) -> str | None:
    return None


@dataclass(frozen=True)
class Benchmark:
    """One program with its parameters.

    `loops_over` names the parameter whose values the program takes as a comma-separated list and loops over inside one
    launch. `refuse` gives the reason why a point cannot run on so many ranks, or None. `estimate` gives the seconds
    that so many repetitions take, roughly, for the plan's forecast only.

    `where` is "host" for a model that needs no nodes: its program is a Python module that takes the same words and
    writes the same lines. A program that `needs_shared_directory` gets `--directory` and a folder that all nodes see.
    """

    name: str
    program: str
    summary: str
    parameters: tuple[Parameter, ...]
    metrics: tuple[Metric, ...]
    loops_over: str | None = None
    figures: tuple[Figure, ...] = ()
    models: tuple[str, ...] = ()
    derivations: tuple[str, ...] = ()
    where: Literal["nodes", "host"] = "nodes"
    needs_shared_directory: bool = False
    refuse: Callable[[Point, int], str | None] = _any_ranks
    estimate: Callable[[Parameters, int], float] = _a_tenth_of_a_second

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    def parameter(self, name: str) -> Parameter | None:
        return next((p for p in self.parameters if p.name == name), None)

    def metric(self, name: str) -> Metric | None:
        return next((m for m in self.metrics if m.name == name), None)

    def arguments(self, parameters: Parameters) -> list[str]:
        """The program's command-line words for these parameters: `--message-bytes 0,1,2 --window 64`."""
        words = []
        for name, value in parameters.items():
            items = value if isinstance(value, tuple) else (value,)
            words += [f"--{name.replace('_', '-')}", ",".join(_word(item) for item in items)]
        return words


def _word(value: Value) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
