"""What a program wrote, read and judged: JSON lines to observations, or the reason why they cannot be trusted.

A program writes one `{"program": ...}` line, one object per observation, and closes with `{"status": ...}`.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.families import Benchmark
from orchestrator.plan import Cell


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _is_finite(value: object) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max  # type: ignore[arg-type]


_FORM: dict[str, Callable[[object], bool]] = {
    "phase": lambda value: value in ("warmup", "measure"),
    "repetition": _is_count,
    "rank": lambda value: value == "all" or _is_count(value),
    "operations": _is_count,
}


@dataclass
class Reading:
    """Everything a launch wrote. `reason` is empty when it can be trusted."""

    program: dict[str, Any] = field(default_factory=dict)
    observations: list[dict[str, Any]] = field(default_factory=list)
    check: str = ""
    reason: str = ""
    other: list[str] = field(default_factory=list)


def read(lines: Sequence[str], cell: Cell) -> Reading:
    """The lines of one launch of the cell."""
    reading = Reading()
    closings = []
    for line in lines:
        document = _object(line)
        if document is None:
            reading.other.append(line)
        elif isinstance(document.get("program"), dict):
            reading.program = document["program"]
        elif "status" in document:
            closings.append(document)
        else:
            reading.observations.append(document)
    if len(closings) != 1:
        reading.reason = f"the program closed {len(closings)} times, not once: it did not come to its end"
        return reading
    reading.check = str(closings[0].get("check") or "")
    if closings[0]["status"] != "ok":
        reading.reason = str(closings[0].get("error") or "the program's own check failed")
    else:
        reading.reason = _distrust(reading.observations, cell)
    return reading


def _object(line: str) -> dict[str, Any] | None:
    try:
        document = json.loads(line, parse_constant=str, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _finite(digits: str) -> float | str:
    """The number, or its digits where no float is so large: a record holds numbers that JSON has."""
    value = float(digits)
    return value if math.isfinite(value) else digits


def _distrust(observations: list[dict[str, Any]], cell: Cell) -> str:
    """Why these are not the observations the cell asked for; empty when they are."""
    benchmark = cell.description
    looped = cell.parameters.get(benchmark.loops_over or "")
    values = looped if isinstance(looped, tuple) else (None,)
    observed = [metric.name for metric in benchmark.metrics if not metric.derived]
    repetitions: dict[tuple[str, Any], list[int]] = {(name, value): [] for name in observed for value in values}
    for number, one in enumerate(observations, start=1):
        if problem := _problem(one, benchmark):
            return f"observation {number} {problem}"
        value = one.get(benchmark.loops_over or "")
        if not any(type(value) is type(asked) and value == asked for asked in values):
            return f"observation {number} has {benchmark.loops_over}={value!r}, which the cell did not ask for"
        if one["phase"] == "measure" and one["rank"] == "all":
            repetitions[one["metric"], value].append(one["repetition"])
    for (metric, value), found in repetitions.items():
        if sorted(found) != list(range(cell.repetitions)):
            there = len(set(found) & set(range(cell.repetitions)))
            at = f" at {benchmark.loops_over}={value}" if value is not None else ""
            return f"{there} of {cell.repetitions} repetitions of {metric}{at} are there, in {len(found)} rows"
    return ""


def _problem(one: dict[str, Any], benchmark: Benchmark) -> str:
    missing = {"metric", "value", "unit", *_FORM} - one.keys()
    if missing:
        return f"has no {', '.join(sorted(missing))}"
    for name, fits in _FORM.items():
        if not fits(one[name]):
            return f"has {name} {one[name]!r}, which makes no sense"
    metric = benchmark.metric(one["metric"])
    if metric is None or metric.derived:
        return f"is of {one['metric']!r}, which {benchmark.name} does not declare"
    if one["unit"] != metric.unit:
        return f"has unit {one['unit']!r}, {metric.name} is in {metric.unit!r}"
    if not _is_finite(one["value"]):
        return f"has the value {one['value']!r}, which is no number"
    return ""
