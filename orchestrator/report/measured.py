"""What was measured, for the page: figures with their captions, tables of numbers, and fits with a verdict in words."""

from __future__ import annotations

import re
from math import nan
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from orchestrator import analysis
from orchestrator.families import BENCHMARKS
from orchestrator.report import figures
from orchestrator.report.figures import CLOSE, Drawn, has_reference, interval_in_words
from orchestrator.report.results import Line, Results, show_parameter, show_quantity, words

# A page is read, a CSV is searched: beyond these numbers the page points to the CSV.
MAX_TABLES, MAX_ROWS, MAX_FITS = 12, 40, 50
ROUGH = 0.3  # relative residuals beyond this: the model does not describe the curve

_SYMBOLS = {"t0": "t₀", "r_inf": "r∞", "m_half": "m½", "pi0": "π₀"}


def figure(drawn: Drawn) -> dict[str, Any]:
    """A figure with what its caption says."""
    declared = drawn.benchmark.metric(drawn.figure.metric)
    return {
        "svg": _inline(drawn),
        "title": drawn.figure.title,
        "x": words(drawn.figure.x),
        "help": declared.help if declared else "",
        "better": declared.better if declared else "",
        "interval": drawn.interval,
        "log": drawn.figure.y_log,
        "model": str(drawn.figure.model) if drawn.model_drawn else None,
        "close": f"{100 * CLOSE:g} %",
        "png": f"figures/{drawn.png.name}",
        "file": f"figures/{drawn.svg.name}",
    }


def _inline(drawn: Drawn) -> Markup:
    """The figure as part of the page: ids of its own, and the page's colours, so that it follows light and dark."""
    text = drawn.svg.read_text(encoding="utf-8")
    text = text[text.index("<svg") :]
    prefix = re.sub(r"\W", "-", drawn.svg.stem)
    text = re.sub(r'\bid="([^"]*)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", text)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    colours = {figures.INK: "currentColor", figures.FAINT: "var(--faint)", figures.PAPER: "none"}
    colours |= {colour: f"var(--series-{number})" for number, colour in enumerate(figures.PALETTE, start=1)}
    for colour, own in colours.items():
        text = text.replace(colour, own)
    text = text.replace("<svg", f'<svg role="img" aria-label="{escape(drawn.figure.title)}"', 1)
    return Markup(text)  # our own drawing; its texts were escaped by the SVG writer


def metric(results: Results, benchmark: str, name: str) -> dict[str, Any]:
    """A metric in numbers: one table for each line of its figure."""
    known = BENCHMARKS.get(benchmark)
    declared = known.metric(name) if known else None
    rows = results.summary(benchmark, name)
    shown = next((f for f in known.figures if f.metric == name and f.x in rows), None) if known else None
    x = shown.x if shown else _swept(rows, results.parameters(benchmark))
    found = list(results.lines(rows, x)) if x else [Line("", rows)]
    names = results.names(benchmark)
    return {
        "name": shown.title if shown else words(name).capitalize(),
        "help": declared.help if declared else "",
        "better": rows["better"].iloc[0],
        "worst": "maximum" if rows["better"].iloc[0] == "lower" else "minimum",
        "interval": interval_in_words(rows),
        "x": words(x) if x else "cell",
        "has_reference": has_reference(rows),
        "tables": [_table(line, x, benchmark, names) for line in found[:MAX_TABLES]],
        "more": max(0, len(found) - MAX_TABLES),
    }


def _swept(rows: pd.DataFrame, parameters: list[str]) -> str | None:
    """The parameter with the most values, as the x of a metric that has no figure; None when nothing varies."""
    counts = {name: rows[name].nunique() for name in parameters}
    return max(counts, key=lambda name: counts[name]) if counts and max(counts.values()) > 1 else None


def _table(line: Line, x: str | None, benchmark: str, names: dict[str, str]) -> dict[str, Any]:
    rows = line.rows.head(MAX_ROWS).to_dict("records")

    def shown(row: dict[Any, Any]) -> dict[str, str]:
        unit = str(row["unit"])
        values = {name: show_quantity(row[name], unit) for name in ("median", "p05", "p95", "maximum", "minimum")}
        low, high = (show_quantity(row[name], unit) for name in ("ci_low", "ci_high"))
        return values | {
            "x": show_parameter(benchmark, x, row[x]) if x else names[row["cell"]],
            "interval": _interval(low, high),
            "launches": str(row["launches"]),
            "outliers": f"{row['outliers']} of {row['samples']}",
            "reference": show_quantity(row.get("reference", nan), unit),
        }

    return {"label": line.label, "rows": [shown(row) for row in rows], "more": max(0, len(line.rows) - MAX_ROWS)}


def _interval(low: str, high: str) -> str:
    """`low – high`, the unit said once when both have the same."""
    if low == high == "–":
        return "–"
    number, _, unit = low.partition(" ")
    return f"{number} – {high}" if unit == high.partition(" ")[2] else f"{low} – {high}"


def models(results: Results, benchmark: str) -> list[dict[str, Any]]:
    """Per model: what it says, and per cell its parameters with a plain verdict on the fit."""
    table = results.tables["models"]
    if table.empty:
        return []
    table = table[table["benchmark"] == benchmark]
    names = results.names(benchmark)
    found = []
    for name, of_model in table.groupby("model", sort=False):
        by_cell = of_model.groupby("cell", sort=False)
        fits = [_fit(results, str(name), rows) | {"label": names[str(cell)]} for cell, rows in by_cell]
        found.append(
            {
                "name": name,
                "about": analysis.load(str(name)).ABOUT if name in analysis.MODELS else "",
                "parameters": [parameter["name"] for parameter in fits[0]["parameters"]],
                "fits": fits[:MAX_FITS],
                "methods": sorted({fit["method"] for fit in fits if fit["method"]}),
                "more": max(0, len(fits) - MAX_FITS),
            }
        )
    return found


def _fit(results: Results, model: str, rows: pd.DataFrame) -> dict[str, Any]:
    benchmark = str(rows["benchmark"].iloc[0])
    found = [row for row in rows.to_dict("records") if row["parameter"] != "max_relative_residual"]
    parameters = [
        {
            "name": _SYMBOLS.get(row["parameter"], row["parameter"]),
            "value": show_quantity(row["value"], row["unit"]),
            "interval": _interval(*(show_quantity(row[end], row["unit"]) for end in ("ci_low", "ci_high"))),
        }
        for row in found
    ]
    residuals = results.of_cells("residuals", [rows["cell"].iloc[0]])
    residuals = residuals if residuals.empty else residuals[residuals["model"] == model]
    return {
        "parameters": parameters,
        "verdict": _verdict_on_fit(found, residuals, benchmark),
        "method": found[0]["method"] if not residuals.empty else None,
    }


def _verdict_on_fit(parameters: list[dict[Any, Any]], residuals: pd.DataFrame, benchmark: str) -> str:
    if residuals.empty:
        return str(parameters[0]["method"]).capitalize() + "."
    worst = residuals.iloc[int(residuals["relative_residual"].abs().argmax())]
    at = show_parameter(benchmark, str(worst["x"]), worst["x_value"])
    off = 100 * abs(worst["relative_residual"])
    miss = f"{off:.0f} %" if off >= 10 else f"{off:.2g} %"
    vague = [
        _SYMBOLS.get(row["parameter"], row["parameter"])
        for row in parameters
        if not row["ci_high"] <= 2 * row["ci_low"]  # NaN counts as vague
    ]
    unsure = f" These points hardly determine {', '.join(vague)}." if vague else ""
    if abs(worst["relative_residual"]) <= CLOSE:
        return f"The model holds: it misses no point by more than {miss} (at {at}).{unsure}"
    if abs(worst["relative_residual"]) <= ROUGH:
        return f"The model holds roughly: it is off by up to {miss} (at {at}).{unsure}"
    return (
        f"The model does not describe this curve: it is off by up to {miss} (at {at}); take its parameters as a rough "
        f"description, not as properties of the system.{unsure}"
    )
