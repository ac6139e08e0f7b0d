"""The page of a run: index.html, one file that needs nothing else to be read, on screen and on paper.

What happened comes first (verdicts, warnings, failures), then what was measured, then on what. The tables of the page
are the short of it; the CSVs beside it are the whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from orchestrator.analysis.statistics import CI_LEVEL, FENCE, MIN_LAUNCHES
from orchestrator.families import BENCHMARKS
from orchestrator.report import figures, measured
from orchestrator.report.figures import Drawn
from orchestrator.report.results import Results, read, words
from orchestrator.report.template import render
from orchestrator.units import show_seconds

STATUSES = ("ok", "failed", "invalid", "skipped")
# A page is read, a CSV is searched: beyond these numbers the page points to the CSV.
MAX_CELLS, MAX_FAILURES, MAX_OUTPUT = 50, 20, 2000
FEW_CELLS = 8  # so many are all listed; of more only those that need a look
NOISE = 0.01  # share of a launch's duration that may be stolen or throttled before the page says so

EVERYWHERE = "*"  # the node of a fact that is about the whole session
_IN_HEAD = ("started", "backend", "command", "mpibed_version", "build")
_FILES = {
    "summary.csv": "medians, intervals and percentiles per point",
    "samples.csv": "every observation, warm-up and outliers included",
    "launches.csv": "every launch: status, reason, order, seed, host load",
    "models.csv": "parameters of the fitted models",
    "residuals.csv": "what the models miss, point by point",
    "mpi_calls.csv": "MPI calls per launch, rank and function",
    "calibration.csv": "the fabric: asked for and measured",
    "environment.csv": "facts about every node",
    "plan.json": "the resolved plan",
    "manifest.yaml": "the manifest as it was written",
    "datapackage.json": "the data dictionary of all tables",
    "raw": "one untouched JSON document per launch",
    "figures": "the figures as PNG and SVG",
}


def build(directory: Path) -> Path:
    """Draw the figures and write the page of the run in `directory`; gives the page's path."""
    results = read(directory)
    drawn = figures.draw(results)
    page = directory / "index.html"
    page.write_text(render("page", **_context(results, drawn)), encoding="utf-8")
    return page


def _context(results: Results, drawn: list[Drawn]) -> dict[str, Any]:
    launches = _last_attempts(results.tables["launches"])
    benchmarks = [_benchmark(results, name, launches, drawn) for name in results.benchmarks()]
    return {
        "plan": results.plan,
        "title": results.plan.get("title") or results.plan["experiment"],
        "description": results.plan.get("description"),
        "facts": _facts(results, launches),
        "counts": _counts(launches),
        "warnings": [*results.plan.get("warnings", []), *_noticed(results, launches)],
        "benchmarks": benchmarks,
        "failures": _failures(results),
        "more_failures": max(0, len(_wrong(results)) - MAX_FAILURES),
        "environment": _environment(
            results.tables["environment"], (results.plan.get("build") or {}).get("description")
        ),
        "files": {name: what for name, what in _FILES.items() if (results.directory / name).exists()},
        "command": f"mpibed report {results.plan['run']}",
        "rules": {"level": f"{100 * CI_LEVEL:g} %", "min_launches": MIN_LAUNCHES, "fence": f"{FENCE:g}"},
    }


# What ran, and how it went


def _last_attempts(launches: pd.DataFrame) -> pd.DataFrame:
    """One row per launch: its last attempt decides."""
    if launches.empty or "attempt" not in launches:
        return launches
    return launches.sort_values("attempt", kind="stable").drop_duplicates(["cell", "launch"], keep="last").sort_index()


def _counts(launches: pd.DataFrame) -> dict[str, int]:
    """Launches by status, ok first; a status that did not occur is left out."""
    found = {} if launches.empty else launches["status"].value_counts().to_dict()
    return {status: int(found[status]) for status in STATUSES if status in found}


def _facts(results: Results, launches: pd.DataFrame) -> dict[str, str]:
    """What the head of the page says about the run."""
    plan = results.plan
    environment = results.tables["environment"]
    facts = _sessions(environment)
    spent = launches["duration_s"].sum() if "duration_s" in launches else 0
    found = {
        "run": plan["run"],
        "created": re.sub(r"T([0-9:]+).*", r" \1 UTC", str(plan.get("created") or plan.get("started") or "")),
        "time in launches": show_seconds(float(spent)) if spent else "",
        "scale": plan.get("scale"),
        "backend": plan.get("backend"),
    }
    for name in ("transport", "fabric", "mode"):
        found[name] = _joined([plan.get(name), *(cell.get(name) for cell in plan["cells"])])
    found |= {
        "clock": _joined([plan.get("clock"), *_texts(launches, "clock")]),
        "order": f"shuffled, seed {plan['seed']}" if plan.get("seed") is not None else "",
        "mpibed": plan.get("mpibed_version"),
        "build": (plan.get("build") or {}).get("identity"),
        "command": plan.get("command") or _joined(facts.get("command", [])),
    }
    return {name: str(value) for name, value in found.items() if value}


def _sessions(environment: pd.DataFrame) -> dict[str, list[str]]:
    """Facts about whole invocations, as their distinct values."""
    general = environment[environment["node"] == EVERYWHERE] if "node" in environment else environment
    return {} if general.empty else {str(fact): _texts(rows, "value") for fact, rows in general.groupby("fact")}


def _joined(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values if value))


def _noticed(results: Results, launches: pd.DataFrame) -> list[str]:
    """Warnings that only the outcome can give."""
    found = []
    counts = _counts(launches)
    if launches.empty:
        found.append("No launch is recorded: nothing was measured.")
    elif not counts.get("ok"):
        found.append("No launch succeeded: there is nothing to summarise.")
    elif results.tables["summary"].empty:
        found.append("The launches gave no samples of all ranks together: there is nothing to summarise.")
    elif (few := int(results.tables["summary"]["launches"].min())) < MIN_LAUNCHES <= results.plan.get("launches", few):
        # Fewer than were planned; of a plan with too few its own warnings tell.
        found.append(
            f"As few as {few} launch{'es stand' if few > 1 else ' stands'} behind some medians; an interval of "
            f"{100 * CI_LEVEL:g} % confidence needs at least {MIN_LAUNCHES}."
        )
    for column, what in (("steal_s", "stolen by the hypervisor"), ("throttled_s", "withheld by a CPU limit")):
        if column in launches and "duration_s" in launches:
            share = pd.to_numeric(launches[column]) / pd.to_numeric(launches["duration_s"])
            if (hit := int((share > NOISE).sum())) > 0:
                found.append(
                    f"CPU time was {what} during {hit} of {len(launches)} launches, up to {100 * share.max():.0f} % of "
                    f"a launch's duration; see {column} in launches.csv."
                )
    return found


def _verdicts(results: Results, benchmark: str, launches: pd.DataFrame) -> list[dict[str, Any]]:
    """One line per cell: what it is, how its launches ended, and what its check or their reasons say."""
    names = results.names(benchmark)
    verdicts = []
    for cell, row in results.cells(benchmark).iterrows():
        rows = launches if launches.empty else launches[launches["cell"] == cell]
        counts = _counts(rows)
        said = _texts(rows, "reason") or _texts(rows, "check")
        verdicts.append(
            {
                "label": names[str(cell)],
                "shape": f"{row['nodes']} × {row['ranks_per_node']}",
                "counts": counts,
                "state": _state(counts),
                "check": "; ".join(said[:2]) + ("; …" if len(said) > 2 else ""),
            }
        )
    return verdicts


def _state(counts: dict[str, int]) -> str:
    return "ok" if set(counts) == {"ok"} else "partial" if counts.get("ok") else "bad"


def _wrong(results: Results) -> pd.DataFrame:
    launches = results.tables["launches"]
    return launches if launches.empty else launches[launches["status"].isin(["failed", "invalid"])]


def _failures(results: Results) -> list[dict[str, Any]]:
    """Every attempt that went wrong, with what the launch last wrote."""
    names = {cell: name for benchmark in results.benchmarks() for cell, name in results.names(benchmark).items()}
    found = []
    for row in _wrong(results).head(MAX_FAILURES).to_dict("records"):
        raw = Path("raw") / str(row["cell"]) / f"{row['launch']:04d}.{row.get('attempt', 1)}.json"
        kept = (results.directory / raw).is_file()
        found.append(
            {
                "title": f"{row['benchmark']}: {names.get(row['cell'], row['cell'])}",
                "launch": row["launch"],
                "attempt": row.get("attempt"),
                "status": row["status"],
                "reason": _text(row.get("reason")) or "no reason recorded",
                "output": _last_output(results.directory / raw) if kept else "",
                "raw": raw.as_posix() if kept else None,
            }
        )
    return found


def _last_output(record: Path) -> str:
    """The end of what a launch wrote to stderr, or else to stdout; nothing when the record cannot be read."""
    try:
        document = json.loads(record.read_text(encoding="utf-8"))
        return "\n".join(document.get("stderr") or document.get("stdout") or [])[-MAX_OUTPUT:]
    except (ValueError, AttributeError, TypeError):
        return ""


def _text(value: Any) -> str:
    return "" if value is None or pd.isna(value) else str(value)


def _texts(rows: pd.DataFrame, column: str) -> list[str]:
    return [str(text) for text in rows[column].dropna().unique()] if column in rows else []


def _benchmark(results: Results, name: str, launches: pd.DataFrame, drawn: list[Drawn]) -> dict[str, Any]:
    known = BENCHMARKS.get(name)
    verdicts = _verdicts(results, name, launches)
    listed = [v for v in verdicts if len(verdicts) <= FEW_CELLS or v["state"] != "ok"]
    counts = _counts(launches if launches.empty else launches[launches["benchmark"] == name])
    return {
        "name": name,
        "summary": known.summary if known else "not known to this version of mpibed",
        "verdicts": listed[:MAX_CELLS],
        "all_ok": len(verdicts) - len(listed),
        "unlisted": max(0, len(listed) - MAX_CELLS),
        "cells": len(verdicts),
        "counts": counts,
        "state": _state(counts),
        "figures": [measured.figure(of) for of in drawn if of.benchmark.name == name],
        "metrics": [measured.metric(results, name, metric) for metric in results.metrics(name)],
        "models": measured.models(results, name),
    }


# What it ran on


def _environment(table: pd.DataFrame, build: str | None) -> list[dict[str, Any]]:
    """One row per fact; nodes that agree are said together, and the session only where it makes a difference."""
    facts = [{"name": "build", "values": [{"value": build, "where": ""}]}] if build else []
    if table.empty:
        return facts
    nodes, sessions = set(table["node"]) - {EVERYWHERE}, set(table["session"])
    for fact, rows in table[~table["fact"].isin(_IN_HEAD)].groupby("fact", sort=False):
        values = []
        for value, alike in rows.groupby("value", sort=False, dropna=False):
            of_nodes, of_sessions = set(alike["node"]), set(alike["session"])
            where = [] if of_nodes >= nodes or EVERYWHERE in of_nodes else sorted(of_nodes)
            where += [] if of_sessions >= sessions else [f"session {number}" for number in sorted(of_sessions)]
            values.append({"value": _show_fact(str(fact), value), "where": ", ".join(where)})
        facts.append({"name": words(str(fact)), "values": values})
    return facts


def _show_fact(fact: str, value: Any) -> str:
    if pd.isna(value):
        return "–"
    return f"{int(value) / 2**30:.1f} GiB" if fact.endswith("_bytes") and str(value).isdigit() else str(value)
