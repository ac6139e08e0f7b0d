"""A run directory as the report reads it: plan.json and the tables, whatever of them is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from orchestrator.errors import UsageError
from orchestrator.families import BENCHMARKS
from orchestrator.units import show_bytes, show_si

TABLES = ("summary", "launches", "models", "residuals", "environment")

# Names stay texts, even those that look like numbers (a cell id may read 12e45678).
_TEXT = (
    *("run", "cell", "label", "benchmark", "metric", "unit", "better", "model", "parameter", "method", "x"),
    *("status", "reason", "check", "started", "clock"),
)
_NOT_WHAT_IT_IS = ("id", "benchmark", "parameters", "repetitions", "warmup")  # of a cell in the plan


@dataclass(frozen=True)
class Line:
    """Points that differ in x alone: rows of the summary, by increasing x. `label` says what sets them apart."""

    label: str
    rows: pd.DataFrame

    @property
    def cells(self) -> list[str]:
        return list(self.rows["cell"].unique())


@dataclass(frozen=True)
class Results:
    """One run: its plan, and its tables by name; a table that was not written is empty."""

    directory: Path
    plan: dict[str, Any]
    tables: dict[str, pd.DataFrame] = field(repr=False)

    def benchmarks(self) -> list[str]:
        """Names of the benchmarks in the plan, in its order; not all need be known to this version."""
        return list(dict.fromkeys(cell["benchmark"] for cell in self.plan["cells"]))

    def cells(self, benchmark: str) -> pd.DataFrame:
        """One row per cell, with the id as index: label, parameters that have one value, placement, fabric, ..."""
        rows = [cell for cell in self.plan["cells"] if cell["benchmark"] == benchmark]
        single = [{n: v for n, v in cell["parameters"].items() if not isinstance(v, list | tuple)} for cell in rows]
        others = [{n: str(v) if isinstance(v, dict | list) else v for n, v in cell.items()} for cell in rows]
        table = pd.DataFrame([{"label": o["label"], **s, **o} for s, o in zip(single, others, strict=True)])
        return table.set_index("id").drop(columns=[*_NOT_WHAT_IT_IS[1:]], errors="ignore")

    def names(self, benchmark: str) -> dict[str, str]:
        """A name for each cell of a benchmark: what sets it apart, or the label when it is the only one."""
        cells = self.cells(benchmark)
        keys = _distinguishing(cells, [str(name) for name in cells])
        return {str(cell): _name(benchmark, keys, row) or str(row["label"]) for cell, row in cells.iterrows()}

    def summary(self, benchmark: str, metric: str) -> pd.DataFrame:
        """Rows of the summary, with all that the plan says about their cells."""
        table = self.tables["summary"]
        if table.empty:
            return table
        rows = table[(table["benchmark"] == benchmark) & (table["metric"] == metric)]
        cells = self.cells(benchmark)
        return rows.join(cells[[name for name in cells if name not in rows]], on="cell")

    def metrics(self, benchmark: str) -> list[str]:
        """The metrics with at least one row in the summary."""
        table = self.tables["summary"]
        return [] if table.empty else list(table.loc[table["benchmark"] == benchmark, "metric"].unique())

    def lines(self, rows: pd.DataFrame, x: str | None) -> Iterator[Line]:
        """One line per combination of what varies apart from x, in order; no line has two cells at one x."""
        benchmark = str(rows["benchmark"].iloc[0])
        of_cell = [str(name) for name in self.cells(benchmark) if name != x]
        looped = [n for n in self.parameters(benchmark) if n != x and n not in of_cell]
        keys = _distinguishing(rows, [*of_cell, *looped], within=[x] if x else [])
        for _, group in rows.groupby(keys, dropna=False) if keys else [((), rows)]:
            label = _name(benchmark, keys, group.iloc[0])
            if group["cell"].nunique() > 1 and (x is None or group[x].duplicated().any()):
                for cell, alone in group.groupby("cell", sort=False):
                    yield Line(", ".join(filter(None, (label, f"cell {cell}"))), _by(x, alone))
            else:
                yield Line(label, _by(x, group))

    def parameters(self, benchmark: str) -> list[str]:
        """The benchmark's parameters that are columns of the summary."""
        cells = [cell["parameters"] for cell in self.plan["cells"] if cell["benchmark"] == benchmark]
        return [name for name in dict.fromkeys(n for cell in cells for n in cell) if name in self.tables["summary"]]

    def of_cells(self, table: str, cells: list[str]) -> pd.DataFrame:
        rows = self.tables[table]
        return rows if rows.empty else rows[rows["cell"].isin(cells)]


def read(directory: Path) -> Results:
    """The run in `directory`, or UsageError when it holds no plan."""
    plan = directory / "plan.json"
    if not plan.is_file():
        raise UsageError(f"{directory} is not a run's folder: it has no plan.json; name one as results/EXPERIMENT/RUN")
    tables = {name: _read_table(directory / f"{name}.csv") for name in TABLES}
    return Results(directory, json.loads(plan.read_text(encoding="utf-8")), tables)


def _read_table(path: Path) -> pd.DataFrame:
    if not path.is_file() or path.stat().st_size == 0:
        return pd.DataFrame()
    # Only the empty field is missing: a node or a label may well be called "NA" or "null".
    text: Any = str if path.stem == "environment" else dict.fromkeys(_TEXT, str)
    table = pd.read_csv(path, dtype=text, keep_default_na=False, na_values=[""])
    for name in table.select_dtypes("float"):  # pandas makes a column of integers with gaps one of floats
        whole = table[name].dropna()
        if 0 < len(whole) < len(table) and (whole % 1 == 0).all():
            table[name] = table[name].astype("Int64")
    return table


def _distinguishing(rows: pd.DataFrame, candidates: list[str], within: Sequence[str] = ()) -> list[str]:
    """The columns that tell rows alike in `within` apart; one that goes along with others tells nothing new."""
    keys: list[str] = []
    groups = rows.groupby(list(within), dropna=False).ngroups if within else 1
    for name in candidates:
        if (finer := rows.groupby([*within, *keys, name], dropna=False).ngroups) > groups:
            keys, groups = [*keys, name], finer
    return keys


def _name(benchmark: str, keys: list[str], row: pd.Series[Any]) -> str:
    given = [(name, row[name]) for name in keys if not pd.isna(row[name])]
    return ", ".join(
        str(value) if name == "label" else f"{words(name)} = {show_parameter(benchmark, name, value)}"
        for name, value in given
    )


def _by(x: str | None, rows: pd.DataFrame) -> pd.DataFrame:
    return rows.sort_values(x) if x else rows


def words(name: str) -> str:
    """A name of the tables as people read it: ranks_per_node -> ranks per node, message_bytes -> message size."""
    return re.sub("_bytes$", "_size", name).replace("_", " ")


def unit_of(benchmark: str, parameter: str) -> str | None:
    known = BENCHMARKS.get(benchmark)
    declared = known.parameter(parameter) if known else None
    return declared.unit if declared else None


def show_parameter(benchmark: str, name: str, value: Any) -> str:
    """A parameter's value for people: bytes in their binary form, other units with an SI prefix."""
    unit = unit_of(benchmark, name)
    if unit == "B":
        return show_bytes(int(value))
    return show_quantity(float(value), unit) if unit else f"{value:g}" if isinstance(value, float) else str(value)


def show_quantity(value: float, unit: str) -> str:
    """Three digits with an SI prefix as they are printed: 8.10 µs, 3.05 GB/s, 2.50 M/s; a dash for nothing."""
    if pd.isna(value):
        return "–"
    return show_si(value, display_unit(unit)).replace(" us", " µs").strip()


def display_unit(unit: str) -> str:
    """A unit that takes a prefix: a rate of 1/s is shown as M/s, a ratio as a bare number."""
    return {"1": "", "1/s": "/s"}.get(unit, unit)
