"""The tables of a run: their columns, written once, and how raw records become them.

A column is a variable, a row an observation, a table a kind of thing. The columns below are the data dictionary: the
schemas in results/schema and in each run's datapackage.json are made from them (Frictionless Table Schema and Data
Package), and every table is validated against them when it is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.errors import MpibedError
from orchestrator.experiment import PLACEMENT
from orchestrator.families import BENCHMARKS, Benchmark, Parameter
from orchestrator.records import RunFolder

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["string", "integer", "number", "boolean", "datetime"]
_DTYPES = {"string": "str", "integer": "Int64", "number": "float64", "boolean": "boolean", "datetime": "str"}
_KINDS: dict[type, Kind] = {int: "integer", float: "number", str: "string", bool: "boolean"}


@dataclass(frozen=True)
class Column:
    """A variable: its type, what it means (with its unit), and what values it may have."""

    name: str
    kind: Kind
    help: str
    required: bool = True
    choices: tuple[str, ...] = ()


_RUN = Column("run", "string", "id of the run")
_CELL = Column("cell", "string", "content id of the cell: a hash of all that can change its result")
_LABEL = Column("label", "string", "what the manifest calls the benchmark")
_BENCHMARK = Column("benchmark", "string", "family and program")
_LAUNCH = Column("launch", "integer", "number of the mpiexec run of this cell, from 0")
_METRIC = (
    Column("metric", "string", "what was observed"),
    Column("unit", "string", "SI unit of the value"),
    Column("better", "string", "which direction is better", choices=("lower", "higher")),
)
_IDENTITY = (_RUN, _CELL, _LABEL, _BENCHMARK)
_PLACEMENT = tuple(Column(p.name, "integer", p.help) for p in PLACEMENT)
_UNIT = Column("unit", "string", "SI unit")
_INTERVAL = (
    Column("ci_low", "number", "lower end of the interval, in `unit`", required=False),
    Column("ci_high", "number", "upper end of the interval, in `unit`", required=False),
    Column("ci_level", "number", "level the interval really has", required=False),
)
_QUANTILES = tuple(Column(name, "number", f"{name} of all measured samples, in `unit`", required=False) for name in
                   ("p05", "p25", "p75", "p95", "p99", "minimum", "maximum", "mean"))  # fmt: skip


def _parameters(benchmarks: Iterable[Benchmark]) -> tuple[Column, ...]:
    """A typed column for each parameter of the benchmarks; empty where a benchmark does not have it."""
    found: dict[str, Parameter] = {p.name: p for benchmark in benchmarks for p in benchmark.parameters}
    return tuple(
        Column(p.name, _KINDS[p.kind], f"{p.help}{f', in {p.unit}' if p.unit else ''}", required=False)
        for p in sorted(found.values(), key=lambda p: p.name)
    )


def schemas(benchmarks: Iterable[Benchmark]) -> dict[str, tuple[Column, ...]]:
    """The columns of every table of a run that has these benchmarks."""
    parameters = _parameters(benchmarks)
    return {
        "samples": (
            *_IDENTITY, _LAUNCH, *_PLACEMENT, *parameters,
            Column("rank", "string", "`all` for a value over all ranks, else the rank it is of"),
            Column("phase", "string", "warm-up repetitions are kept and flagged", choices=("warmup", "measure")),
            Column("repetition", "integer", "number within its phase, from 0"),
            _METRIC[0], Column("value", "number", "the observation, in `unit`"), *_METRIC[1:],
            Column("operations", "integer", "operations the value is the mean of"),
            Column("outlier", "boolean", "outside Tukey's fence of its launch; flagged, never dropped"),
        ),
        "launches": (
            *_IDENTITY, *_PLACEMENT, _LAUNCH,
            Column("attempt", "integer", "from 1; a launch that failed may be tried again", required=False),
            Column("status", "string", "how it ended", choices=("ok", "failed", "invalid", "skipped")),
            Column("reason", "string", "why it is not ok", required=False),
            Column("check", "string", "what the program verified", required=False),
            Column("transport", "string", "how MPICH moved bytes"),
            Column("started", "datetime", "when, UTC", required=False),
            Column("duration_s", "number", "from the start of mpiexec to its end, in s", required=False),
            Column("position", "integer", "place in the shuffled order, from 0", required=False),
            Column("seed", "integer", "seed of that order"),
            Column("exit_code", "integer", "of mpiexec; empty when it was ended", required=False),
            Column("load1_before", "number", "one-minute load of the host before", required=False),
            Column("load1_after", "number", "one-minute load of the host after", required=False),
            Column("steal_s", "number", "CPU time the hypervisor took meanwhile, in s", required=False),
            Column("throttled_s", "number", "time the cgroup was throttled meanwhile, in s", required=False),
            Column("clock", "string", "clock the program timed with", required=False),
            Column("clock_resolution_s", "number", "smallest step seen of that clock, in s", required=False),
            Column("session", "integer", "which invocation of mpibed ran it", required=False),
        ),
        "environment": (
            _RUN, Column("session", "integer", "invocation of mpibed, from 1"),
            Column("node", "string", "node the fact is of; `*` for all"),
            Column("fact", "string", "what is described"),
            Column("value", "string", "as the node or the engine told it", required=False),
        ),
        "summary": (
            *_IDENTITY, *_PLACEMENT, *parameters, *_METRIC,
            Column("launches", "integer", "launches with samples; the interval is over their medians"),
            Column("samples", "integer", "measured samples"),
            Column("median", "number", "median of the launches' medians, in `unit`"),
            *_INTERVAL, *_QUANTILES,
            Column("outliers", "integer", "samples flagged; they count in all columns"),
            Column("reference", "number", "what the manifest's reference gives for it, in `unit`", required=False),
        ),
        "models": (
            *_IDENTITY, Column("model", "string", "the model that was fitted"),
            Column("parameter", "string", "its parameter"),
            Column("value", "number", "estimate, in `unit`", required=False),
            _UNIT, *_INTERVAL,
            Column("n", "integer", "points the fit is of"),
            Column("method", "string", "how the interval was made, or why there is no fit"),
        ),
        "residuals": (
            _RUN, _CELL, Column("model", "string", "the model"), Column("x", "string", "the variable it is over"),
            Column("x_value", "number", "value of that variable, in SI"),
            Column("observed", "number", "median, in `unit`"),
            Column("predicted", "number", "by the model, in `unit`"),
            Column("relative_residual", "number", "(observed - predicted) / predicted"), _UNIT,
        ),
    }  # fmt: skip


def descriptor(columns: Iterable[Column]) -> dict[str, Any]:
    """As a Frictionless Table Schema."""
    fields = []
    for column in columns:
        constraints: dict[str, Any] = {"required": True} if column.required else {}
        if column.choices:
            constraints["enum"] = list(column.choices)
        field: dict[str, Any] = {"name": column.name, "type": column.kind, "description": column.help}
        fields.append(field | ({"constraints": constraints} if constraints else {}))
    return {"fields": fields, "missingValues": [""]}


def collect(folder: RunFolder) -> dict[str, int]:
    """Write every table of the run from its raw records alone; the number of rows of each.

    MpibedError when a table does not fit its schema: that would be a defect of mpibed, and the tables would mislead.
    """
    from orchestrator import analysis
    from orchestrator.analysis import statistics

    stored = folder.plan()
    records = list(folder.launches())
    columns = schemas({BENCHMARKS[cell["benchmark"]] for cell in stored["cells"]})
    frames = {
        "samples": _frame(_samples(records), columns["samples"]),
        "launches": _frame(_launches(stored, records), columns["launches"]),
        "environment": _frame(_environment(folder), columns["environment"]),
    }
    samples = frames["samples"]
    samples["outlier"] = statistics.flag_outliers(samples).astype("boolean")
    parameters = [column.name for column in _parameters(BENCHMARKS[cell["benchmark"]] for cell in stored["cells"])]
    summary = statistics.summarise(samples, parameters)
    summary = _with_reference(analysis.run_derivations(samples, summary), folder, columns["summary"])
    models, residuals = analysis.run_models(samples, summary, only=stored["analysis"])
    for name, derived in (("summary", summary), ("models", models), ("residuals", residuals)):
        frames[name] = _typed(derived, columns[name])
    for name, frame in frames.items():
        frame.to_csv(folder.path / f"{name}.csv", index=False, lineterminator="\r\n", errors="replace")  # RFC 4180
    _validate(folder.path, columns)
    return {name: len(frame) for name, frame in frames.items()}


def _with_reference(summary: pd.DataFrame, folder: RunFolder, columns: Iterable[Column]) -> pd.DataFrame:
    """The summary with the reference's value beside each row that the reference has, by all columns they share.

    A reference is a CSV with `metric`, `value` and any of the summary's own columns, such as its parameters.
    """
    import pandas as pd

    if not len(summary) or not (path := folder.path / "reference.csv").is_file():
        return summary
    reference = pd.read_csv(path, dtype="str", keep_default_na=False, na_values=[""])
    known = {column.name: _DTYPES[column.kind] for column in columns}
    keys = [name for name in reference.columns if name in known]
    typed = reference[[*keys, "value"]].astype({name: known[name] for name in keys} | {"value": "float64"})
    if typed.duplicated(keys).any():
        raise MpibedError(f"{path} gives two values for the same {', '.join(keys)}; keep one of each")
    ours = _typed(summary, columns).drop(columns="reference")
    return ours.merge(typed.rename(columns={"value": "reference"}), how="left", on=keys)


def read_run(folder: RunFolder, name: str) -> pd.DataFrame:
    """A table of a run as typed columns."""
    import pandas as pd

    columns = schemas({BENCHMARKS[cell["benchmark"]] for cell in folder.plan()["cells"]})[name]
    frame = pd.read_csv(folder.path / f"{name}.csv", dtype="str", keep_default_na=False, na_values=[""])
    booleans = [column.name for column in columns if column.kind == "boolean"]
    return _typed(frame.replace({name: {"True": True, "False": False} for name in booleans}), columns)


def _samples(records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row per observation of the launches that are ok; others have no times."""
    for record in records:
        if record["status"] != "ok":
            continue
        cell = record["cell"]
        fixed = {name: value for name, value in cell["parameters"].items() if not isinstance(value, list)}
        common = _identity(record) | fixed | {"launch": record["launch"]}
        benchmark = BENCHMARKS[cell["benchmark"]]
        better = {metric.name: metric.better for metric in benchmark.metrics}
        for observation in record["observations"]:
            yield observation | common | {"better": better[observation["metric"]], "rank": str(observation["rank"])}


_AS_RECORDED = (
    *("launch", "attempt", "status", "reason", "check", "started"),
    *("duration_s", "position", "seed", "exit_code", "session"),
)


def _launches(stored: dict[str, Any], records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row per attempt, and one with status skipped per planned launch that has none."""
    seen = set()
    for record in records:
        seen.add((record["cell"]["id"], record["launch"]))
        before, after = record["host"]["before"], record["host"]["after"]
        yield (
            _identity(record)
            | {name: record[name] for name in _AS_RECORDED}
            | {
                "transport": record["cell"]["transport"],
                "load1_before": before["load1"],
                "load1_after": after["load1"],
                "steal_s": after["steal_s"] - before["steal_s"],
                "throttled_s": after["throttled_s"] - before["throttled_s"],
                "clock": _told(record, "clock", str),
                "clock_resolution_s": _told(record, "clock_resolution_s", float),
            }
        )
    cells = {cell["id"]: cell for cell in stored["cells"]}
    for position, (cell, launch) in enumerate(stored["order"]):
        if (cell, launch) not in seen:
            yield _identity({"run": stored["run"], "cell": cells[cell]}) | {
                "launch": launch, "status": "skipped", "reason": "the run ended before it; run again to go on",
                "transport": cells[cell]["transport"], "position": position, "seed": stored["seed"],
            }  # fmt: skip


def _identity(record: dict[str, Any]) -> dict[str, Any]:
    cell = record["cell"]
    shared = {name: cell[name] for name in ("label", "benchmark", "nodes", "ranks_per_node")}
    return {"run": record["run"], "cell": cell["id"], **shared}


def _told(record: dict[str, Any], fact: str, kind: type) -> object:
    """What the program said of itself, if it makes sense."""
    value = record["program"].get(fact)
    return value if isinstance(value, kind) else None


def _environment(folder: RunFolder) -> Iterator[dict[str, Any]]:
    libraries: dict[int, Any] = {}
    for record in folder.launches():
        if library := _told(record, "mpi_library", str):
            libraries.setdefault(record["session"], library)
    for number, session in enumerate(folder.sessions(), start=1):
        run = {"run": folder.run, "session": number}
        general = {name: session[name] for name in ("started", "backend", "command", "mpibed_version")}
        general |= {"build": session["build"]["identity"], "mpi_library": libraries.get(number, "")}
        for name, value in general.items():
            yield run | {"node": "*", "fact": name, "value": value or None}
        for node in session["nodes"]:
            for name, value in node["facts"].items():
                yield run | {"node": node["node"], "fact": name, "value": value or None}


def _frame(rows: Iterable[dict[str, Any]], columns: Iterable[Column]) -> pd.DataFrame:
    import pandas as pd

    names = [column.name for column in columns]
    return _typed(pd.DataFrame.from_records(list(rows), columns=names), columns)


def _typed(frame: pd.DataFrame, columns: Iterable[Column]) -> pd.DataFrame:
    """The columns in their order and type; a column that is not there is empty."""
    kinds = {column.name: _DTYPES[column.kind] for column in columns}
    return frame.reindex(columns=list(kinds)).replace("", None).astype(kinds)


def _validate(run: Path, columns: dict[str, tuple[Column, ...]]) -> None:
    """Check every table as written against its schema, and leave the schemas beside them as a data package."""
    from frictionless import Checklist, Package, Resource  # slow to import

    resources = [
        {"name": name, "path": f"{name}.csv", "format": "csv", "mediatype": "text/csv", "encoding": "utf-8",
         "schema": descriptor(table)}
        for name, table in columns.items()
    ]  # fmt: skip
    package = {"name": "mpibed-run", "resources": resources}
    (run / "datapackage.json").write_text(json.dumps(package, indent=1) + "\n", encoding="utf-8")
    for resource in Package.from_descriptor(package, basepath=str(run)).resources:
        assert isinstance(resource, Resource)
        report = resource.validate(Checklist(), limit_errors=3)
        if not report.valid:
            errors = "; ".join(note for (note,) in report.flatten(["note"]))
            raise MpibedError(f"{run / str(resource.path)} does not fit its schema ({errors}); please report this")


def main() -> None:
    """Write results/schema, the data dictionary, from the columns above."""
    from orchestrator import project

    for name, columns in schemas(BENCHMARKS.values()).items():
        path = project.ROOT / "results" / "schema" / f"{name}.json"
        path.write_text(json.dumps(descriptor(columns), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
