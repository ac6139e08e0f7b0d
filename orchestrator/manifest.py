"""The manifest: what a user writes, as pydantic models, and its loading with a place in every error.

    text --yaml_source--> tree --scale--> merged tree --models--> Manifest

Only the form is checked here; whether benchmarks and parameters exist is `experiment.py`'s business.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator

from orchestrator import sweep, units, yaml_source
from orchestrator.errors import ManifestError
from orchestrator.yaml_source import Tree

ScaleName = Literal["smoke", "laptop", "paper"]
SCALES: tuple[ScaleName, ...] = typing.get_args(ScaleName)
Transport = Literal["auto", "native", "tcp", "ofi-shm"]


def _plain(value: object) -> object:
    if not isinstance(value, int | float | str | bool):
        raise ValueError(f"{value!r} is not a plain value; write a number, a text, true or false")
    return value


def _number(value: object) -> object:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a number")
    return value


Scalar = Annotated[int | float | str | bool, BeforeValidator(_plain)]
Number = Annotated[int | float, BeforeValidator(_number)]
Size = Annotated[
    int, BeforeValidator(units.parse_bytes), WithJsonSchema({"type": ["integer", "string"], "examples": ["64KiB"]})
]
Duration = Annotated[
    float, BeforeValidator(units.parse_seconds), WithJsonSchema({"type": "string", "examples": ["60s", "5min"]})
]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]
Launches = Annotated[int, Field(ge=1, le=1000)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Timeout = Annotated[Duration, Field(gt=0, le=86_400)]


class Strict(BaseModel):
    """No unknown keys, no silent conversion."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


class Resources(Strict):
    """Limits of one node."""

    cpus: float | None = Field(None, gt=0, le=1024, description="processors' worth of time")
    memory: Size | None = Field(None, description="memory, for example 512MiB")


class Testbed(Strict):
    """The nodes an experiment runs on."""

    __test__ = False

    nodes: int = Field(2, ge=1, le=256)
    ranks_per_node: int = Field(1, ge=1, le=1024)
    transport: Transport = Field(
        "auto",
        description="how MPICH moves bytes: its own shared memory inside a node and TCP between (native), "
        "TCP for all (tcp), libfabric shared memory for all (ofi-shm), or what suits the placement (auto)",
    )
    resources: Resources = Resources()
    shared_memory: Size | None = Field(None, description="size of /dev/shm in each node")


class Range(Strict):
    """from, from + step, ... up to and including to."""

    start: Number = Field(alias="from")
    to: Number
    step: Number = 1


class Log2(Strict):
    """from, 2 from, 4 from, ... not beyond to."""

    start: Size = Field(alias="from")
    to: Size


def _short_axis(value: object) -> object:
    return {"values": value} if isinstance(value, list) else value


class AxisBody(Strict):
    """The values one parameter takes, in one of three forms, and more values put in front."""

    values: list[Scalar] | None = None
    range: Range | None = None
    log2: Log2 | None = None
    include: list[Scalar] = []

    @model_validator(mode="after")
    def _one_form(self) -> AxisBody:
        given = [name for name in ("values", "range", "log2") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"an axis needs exactly one of values, range, log2; found {' and '.join(given) or 'none'}")
        return self

    def expand(self) -> list[Scalar]:
        """The values in order; ValueError when a form makes no sense."""
        if self.range:
            body: Iterable[Scalar] = sweep.arithmetic(self.range.start, self.range.to, self.range.step)
        elif self.log2:
            body = sweep.powers_of_two(self.log2.start, self.log2.to)
        else:
            body = self.values or []
        return [*self.include, *body]


Axis = Annotated[AxisBody, BeforeValidator(_short_axis, json_schema_input_type=list[Scalar] | AxisBody)]


class Exclude(Strict):
    """Drops the points for which `where` is true."""

    where: str


class Sweep(Strict):
    """The points of a benchmark: matrix axes crossed, zip axes together, minus what is excluded."""

    matrix: dict[str, Axis] = {}
    zip: dict[str, Axis] = {}
    exclude: list[Exclude] = []


class BenchmarkUse(Strict):
    """One benchmark with its fixed parameters and its sweep."""

    benchmark: str
    label: Name | None = Field(None, description="how tables and figures call it; by default the benchmark's own name")
    parameters: dict[str, Scalar] = {}
    sweep: Sweep = Sweep()


class BenchmarkOverride(Strict):
    """What a scale changes of one benchmark; a sweep is replaced whole."""

    parameters: dict[str, Scalar] = {}
    sweep: Sweep | None = None


class ScaleOverride(Strict):
    """What a scale changes. `benchmarks` is by label."""

    testbed: dict[str, Any] = {}
    launches: Launches | None = None
    repetitions: Count | None = None
    warmup: Count | None = None
    timeout: Timeout | None = None
    benchmarks: dict[str, BenchmarkOverride] = {}


class Manifest(Strict):
    """An experiment: what to run, on what, how often."""

    schema_version: Literal[1] = Field(alias="schema", description="version of the manifest's form")
    name: Name
    title: str = ""
    description: str = ""
    testbed: Testbed = Testbed()
    fabric: Literal["none"] = Field("none", description="the interconnect to emulate")
    mode: Literal["pc"] = Field("pc", description="processor-centric: payload crosses the network")
    benchmarks: list[BenchmarkUse] = Field(min_length=1)
    launches: Launches = Field(5, description="fresh mpiexec runs of each cell")
    repetitions: Count = Field(20, description="timed repetitions in a launch")
    warmup: Count = Field(3, description="repetitions before them, verified and flagged; at least 1")
    timeout: Timeout = Field(120.0, description="of one launch", validate_default=False)
    seed: int | None = Field(
        None, ge=0, le=2**63 - 1, description="of the execution order; drawn and recorded if absent"
    )
    scales: dict[ScaleName, ScaleOverride] = {}
    analysis: list[str] | None = Field(None, description="models to fit; by default those of the benchmarks")
    figures: list[str] | None = Field(None, description="figures to draw, by name; by default all")
    reference: str | None = Field(None, description="CSV of the values a paper gives, beside the manifest")
    claims: list[Any] = Field([], max_length=0, description="reserved")


_DEEP = frozenset({("testbed",), ("testbed", "resources"), ("parameters",)})


@dataclass(frozen=True)
class Mistake:
    """Something wrong at a path of the manifest: what was found, what is allowed."""

    path: tuple[str | int, ...]
    text: str


@dataclass(frozen=True)
class Source:
    """A manifest with its scale applied, and where its parts stood."""

    path: Path
    scale: ScaleName
    manifest: Manifest
    tree: Tree

    def error(self, mistakes: Iterable[Mistake]) -> ManifestError:
        """All mistakes as `file:line:column: text` lines, in the order of the file."""
        return _error(self.path, _placed(self.tree, mistakes))


def load(path: Path, scale: ScaleName = "laptop") -> Source:
    """The manifest at that scale. ManifestError lists every mistake of its form, at any scale."""
    tree = yaml_source.read(path)
    overrides = [name for name in SCALES if _is_mapping(_child(_child(tree, "scales"), name))]
    trees: dict[str, Tree] = {"": tree} | {name: _scaled(tree, name) for name in overrides}
    manifests: dict[str, Manifest] = {}
    wrong = _placed(tree, [mistake for name in overrides for mistake in _unknown_labels(tree, name)])
    for name, one in trees.items():
        try:
            manifests[name] = Manifest.model_validate(one.plain())
        except ValidationError as error:
            wrong = _placed(one, [_mistake(dict(detail)) for detail in error.errors()]) | wrong  # a place is told once
    if wrong:
        raise _error(path, wrong)
    if scale not in trees and scale != "laptop":
        there = ", ".join(["laptop", *(name for name in overrides if name != "laptop")])
        raise ManifestError(f"{path}: has no scale {scale!r}; it has: {there}")
    chosen = scale if scale in trees else ""
    return Source(path, scale, manifests[chosen], trees[chosen])


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a manifest, for editors."""
    return Manifest.model_json_schema(by_alias=True)


def _scaled(tree: Tree, scale: str) -> Tree:
    """The tree with that scale's overrides in place; those of benchmarks go to the item of their label."""
    over = _child(_child(tree, "scales"), scale)
    assert isinstance(tree.value, dict) and over is not None and isinstance(over.value, dict)
    top = {key: value for key, value in over.value.items() if key != "benchmarks"}
    merged = yaml_source.merged(tree, Tree(top, over.line, over.column, over.keys), _DEEP)
    uses = _child(tree, "benchmarks")
    if uses is None or not isinstance(uses.value, list):
        return merged
    changes = dict(yaml_source.items(_child(over, "benchmarks")))
    items = [
        yaml_source.merged(item, changes[_label(item)], _DEEP) if _label(item) in changes else item
        for item in uses.value
    ]
    assert isinstance(merged.value, dict)
    values = merged.value | {"benchmarks": Tree(items, uses.line, uses.column, {})}
    return Tree(values, merged.line, merged.column, merged.keys)


def _unknown_labels(tree: Tree, scale: str) -> list[Mistake]:
    uses = _child(tree, "benchmarks")
    labels = [_label(item) for item in uses.value] if uses is not None and isinstance(uses.value, list) else []
    overridden = _child(_child(_child(tree, "scales"), scale), "benchmarks")
    return [
        Mistake(("scales", scale, "benchmarks", label), unknown("benchmark label", label, labels))
        for label, _ in yaml_source.items(overridden)
        if label not in labels
    ]


def _is_mapping(tree: Tree | None) -> bool:
    return tree is not None and isinstance(tree.value, dict)


def _child(tree: Tree | None, key: str) -> Tree | None:
    return tree.value.get(key) if tree is not None and isinstance(tree.value, dict) else None


def _label(item: Tree) -> str:
    given = _child(item, "label") or _child(item, "benchmark")
    return default_label(str(given.value)) if given else ""


def default_label(benchmark: str) -> str:
    """`p2p.latency` is called `latency` unless a label says otherwise."""
    return benchmark.rpartition(".")[2]


def unknown(kind: str, found: str, allowed: Sequence[str]) -> str:
    """`unknown key 'lanches'; allowed: ...; did you mean 'launches'?`"""
    near = difflib.get_close_matches(found, allowed, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown {kind} {found!r}; allowed: {', '.join(allowed)}{hint}"


_Placed = dict[tuple[int, int], set[str]]


def _placed(tree: Tree, mistakes: Iterable[Mistake]) -> _Placed:
    found: _Placed = {}
    for mistake in mistakes:
        found.setdefault(tree.place(mistake.path), set()).add(mistake.text)
    return found


def _error(path: Path, wrong: _Placed) -> ManifestError:
    placed = sorted((place, text) for place, texts in wrong.items() for text in texts)
    return ManifestError("\n".join(f"{path}:{line}:{column}: {text}" for (line, column), text in placed))


def _mistake(detail: dict[str, Any]) -> Mistake:
    where, found = tuple(step for step in detail["loc"] if step != "[key]"), detail["input"]
    match detail["type"]:
        case "extra_forbidden":
            text = unknown("key", str(where[-1]), _keys_at(where[:-1]))
        case "missing":
            text = f"the key {where[-1]!r} is missing; it is required"
        case "value_error":
            text = str(detail["ctx"]["error"])
        case "literal_error":
            allowed = [option.strip("'") for option in detail["ctx"]["expected"].replace(" or ", ", ").split(", ")]
            text = unknown("value", str(found), allowed)
        case "model_type" | "dict_type":
            text = f"{_shown(found)} is not a mapping; write keys with values"
        case _:
            text = f"{_shown(found)} is not allowed; {detail['msg'][0].lower()}{detail['msg'][1:]}"
    return Mistake(where, f"{'.'.join(map(str, where))}: {text}" if where else text)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _keys_at(where: tuple[str | int, ...]) -> list[str]:
    """The keys of the model at a path of pydantic's error."""
    kind: Any = Manifest
    for step in where:
        kind = _inner(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = next((f.annotation for n, f in kind.model_fields.items() if step in (n, f.alias)), None)
        else:  # a list or a mapping: the last argument is what it holds
            kind = typing.get_args(kind)[-1] if typing.get_args(kind) else None
    kind = _inner(kind)
    fields = kind.model_fields.items() if isinstance(kind, type) and issubclass(kind, BaseModel) else ()
    return [field.alias or name for name, field in fields]


def _inner(kind: Any) -> Any:
    """The type without Optional and Annotated."""
    while typing.get_origin(kind) in (Annotated, typing.Union, types.UnionType):
        kind = typing.get_args(kind)[0]
    return kind
