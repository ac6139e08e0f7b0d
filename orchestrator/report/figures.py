"""Figures of a run, as PNG and SVG: what each benchmark declares, drawn from summary, models and residuals.

Every point is a median of launch medians with its interval. Points are joined only where x is a continuous quantity.
The same tables give the same bytes. The look is for a paper; the page swaps the colours named here for its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from math import ceil, floor, log
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import (
    EngFormatter,
    FixedFormatter,
    FixedLocator,
    LogLocator,
    NullFormatter,
    NullLocator,
    PercentFormatter,
    StrMethodFormatter,
)

from orchestrator import analysis
from orchestrator.analysis.statistics import MIN_LAUNCHES
from orchestrator.families import BENCHMARKS, Benchmark, Figure
from orchestrator.report.results import Line, Results, display_unit, show_parameter, unit_of, words
from orchestrator.units import show_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, FAINT, PAPER = "#1b1f24", "#d0d4d9", "#ffffff"
# Okabe & Ito's palette for every kind of colour vision, without its black and its yellow (too pale for a thin line).
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_MOST_IN_LEGEND = 18  # more would leave no room for the data
MARKERS = "osD^vPX"  # seven, to six colours: line after line differs in both, 42 combinations in all
CLOSE = 0.1  # relative residuals within this are called close to the model, here and on the page

_STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Helvetica", "Arial", "sans-serif"],
    "font.size": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "legend.frameon": False,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "svg.fonttype": "none",  # text stays text: searchable, and small
}


@dataclass(frozen=True)
class Drawn:
    """A figure that exists, with what its caption must say."""

    benchmark: Benchmark
    figure: Figure
    png: Path
    svg: Path
    interval: str
    model_drawn: bool


def draw(results: Results) -> list[Drawn]:
    """Every figure that the plan's benchmarks declare and the summary has points for, in `figures/` of the run."""
    drawn = []
    for name in results.benchmarks():
        benchmark = BENCHMARKS.get(name)
        for figure in benchmark.figures if benchmark else ():
            rows = results.summary(name, figure.metric)
            asked = results.plan.get("figures")  # by the manifest; all when it does not say
            if benchmark and (asked is None or figure.name in asked) and not rows.empty and figure.x in rows:
                drawn.append(_draw(results, benchmark, figure, rows))
    return drawn


def _draw(results: Results, benchmark: Benchmark, figure: Figure, rows: pd.DataFrame) -> Drawn:
    found = list(results.lines(rows, figure.x))
    stem = f"{benchmark.name}-{figure.name}"
    directory = results.directory / "figures"
    directory.mkdir(exist_ok=True)
    png, svg = directory / f"{stem}.png", directory / f"{stem}.svg"
    interval = interval_in_words(rows)
    residuals = results.of_cells("residuals", list(rows["cell"].unique()))
    modelled = figure.model is not None and not residuals.empty and bool((residuals["model"] == figure.model).any())
    # A salt of its own keeps ids apart when several figures are put into one page.
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": stem}):
        canvas = Canvas(figsize=(7.2, 5.2 if modelled else 4.0), layout="constrained")
        FigureCanvasAgg(canvas)
        below = None
        if modelled:
            top, below = canvas.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
        else:
            top = canvas.subplots()
        x = _XAxis(rows[figure.x], figure, benchmark)
        for line, colour, marker in zip(found, cycle(PALETTE), cycle(MARKERS), strict=False):
            _draw_line(top, x, line, colour, marker)
            if below is not None:
                _draw_model(top, below, x, results, line, str(figure.model), colour, marker)
        x.apply(below if below is not None else top, top)
        _finish_y(top, figure, benchmark, rows)
        if below is not None:
            _finish_residuals(below)
        top.set_title(figure.title, loc="left", fontsize=11, fontweight="bold", pad=20)
        note = top.annotate(interval, (0, 1), (0, 7), "axes fraction", "offset points", fontsize=8)
        note.set_in_layout(False)  # a long line must not narrow the axes
        if has_reference(rows):
            top.plot([], [], "o", markersize=9, markerfacecolor="none", color=INK, label="reference")
        _legend(canvas, top, figure.model if modelled else None)
        canvas.savefig(png, dpi=160, metadata={"Software": None})
        canvas.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    return Drawn(benchmark, figure, png, svg, interval, modelled)


def interval_in_words(rows: pd.DataFrame) -> str:
    """What a point and its bar are, with the n and the level they really have."""
    low, high = int(rows["launches"].min()), int(rows["launches"].max())
    each = rows["samples"] / rows["launches"]
    repetitions = f"{_range(round(each.min()), round(each.max()))} repetitions"
    if high == 1:
        return f"Medians of a single launch ({repetitions}): no interval"
    medians = f"Medians of {_range(low, high)} launch medians ({repetitions} each)"
    level = _range(f"{100 * rows['ci_level'].min():.3g}", f"{100 * rows['ci_level'].max():.3g}") + " %"
    if high < MIN_LAUNCHES:
        return f"{medians} with their minimum and maximum ({level} confidence)"
    return f"{medians} with {level} confidence intervals"


def _range(low: object, high: object) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


class _XAxis:
    """Where values of x go: a continuous axis (log with a place for zero, or linear), or one place for each name."""

    def __init__(self, values: pd.Series[Any], figure: Figure, benchmark: Benchmark) -> None:
        self.name, self.benchmark = figure.x, benchmark.name
        self.unit = unit_of(benchmark.name, figure.x)
        self.values = sorted(values.dropna().unique())
        self.continuous = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
        self.log = self.continuous and figure.x_log and self.values[-1] > 0 and self.values[0] >= 0
        self.has_zero = self.log and self.values[0] == 0

    def places(self, values: Sequence[Any] | pd.Series[Any]) -> np.ndarray:
        if self.continuous:
            return np.asarray(values, dtype=float)
        return np.array([self.values.index(value) for value in values], dtype=float)

    def pieces(self, rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """What may be joined by a line: on a log axis zero stands alone, since it has no distance to the next value."""
        if not self.continuous:
            yield from (rows.iloc[[i]] for i in range(len(rows)))
        elif self.has_zero:
            zero = rows[self.name] == 0
            yield from (part for part in (rows[zero], rows[~zero]) if len(part))
        else:
            yield rows

    def between(self, rows: pd.DataFrame) -> np.ndarray:
        """Places for a smooth curve over the values of `rows`."""
        low, high = float(rows[self.name].min()), float(rows[self.name].max())
        return np.geomspace(low, high, 200) if self.log and low > 0 else np.linspace(low, high, 200)

    def apply(self, labelled: Axes, top: Axes) -> None:
        unit = f" ({self.unit})" if self.unit and self.unit != "B" else ""
        labelled.set_xlabel(words(self.name) + unit)
        if not self.continuous:
            labelled.set_xticks(range(len(self.values)), [_literal(str(value)) for value in self.values])
            labelled.margins(x=0.1)
        elif self.log:
            self._apply_log(labelled, top)
        elif self.unit == "B":
            labelled.xaxis.set_major_formatter(lambda value, _: show_bytes(round(value)))

    def _apply_log(self, labelled: Axes, top: Axes) -> None:
        positive = [float(value) for value in self.values if value > 0]
        base = 2 if all(value % 1 == 0 for value in positive) else 10
        if self.has_zero:
            # Zero sits a little below the smallest value, behind a break in the axis.
            labelled.set_xscale("symlog", base=base, linthresh=positive[0], linscale=1)
        else:
            labelled.set_xscale("log", base=base)
        ticks = _log_ticks(positive, base)
        shown = [0.0, *ticks] if self.has_zero else ticks
        labels = [show_parameter(self.benchmark, self.name, int(t) if t >= 1 or t == 0 else t) for t in shown]
        labelled.xaxis.set_major_locator(FixedLocator(shown))
        labelled.xaxis.set_major_formatter(FixedFormatter([_literal(label) for label in labels]))
        labelled.xaxis.set_minor_locator(NullLocator())
        labelled.set_xlim(-0.4 * positive[0] if self.has_zero else positive[0] / 1.5, positive[-1] * 1.5)
        if self.has_zero:
            for axes in dict.fromkeys((labelled, top)):
                for place in (0.46, 0.54):
                    axes.plot(
                        place * positive[0], 0, marker=(2, 0, -25), markersize=8, color=INK, markeredgewidth=0.8,
                        transform=axes.get_xaxis_transform(), clip_on=False,
                    )  # fmt: skip


def _log_ticks(values: list[float], base: int) -> list[float]:
    """The values themselves while their labels have room, else powers of the base."""
    low, high = floor(log(values[0], base)), ceil(log(values[-1], base))
    room = (values[-1] / values[0]) ** (1 / 14)
    if len(values) <= 9 and all(after / before >= room for before, after in pairwise(values)):
        return values
    return [float(base) ** power for power in range(low, high + 1, max(1, ceil((high - low) / 9)))]


def _draw_line(axes: Axes, x: _XAxis, line: Line, colour: str, marker: str) -> None:
    rows = line.rows
    label = _literal(line.label) or None
    places, median = x.places(rows[x.name]), rows["median"].to_numpy(dtype=float)
    reach = np.abs(rows[["ci_low", "ci_high"]].to_numpy(dtype=float).T - median)
    axes.errorbar(places, median, reach, fmt=marker, color=colour, label=label, capsize=2.5, elinewidth=1, capthick=1)
    for part in x.pieces(rows):
        if len(part) > 1:
            axes.plot(x.places(part[x.name]), part["median"].to_numpy(dtype=float), color=colour, alpha=0.55)
    if has_reference(rows):
        axes.plot(
            places, rows["reference"].to_numpy(dtype=float), linestyle="none", marker=marker, markersize=9,
            markerfacecolor="none", markeredgecolor=colour, markeredgewidth=1,
        )  # fmt: skip


def has_reference(rows: pd.DataFrame) -> bool:
    """Whether a reference gives a value for any of the rows."""
    return "reference" in rows and bool(rows["reference"].notna().any())


def _draw_model(
    top: Axes, below: Axes, x: _XAxis, results: Results, line: Line, model: str, colour: str, marker: str
) -> None:
    """The prediction as a thin dashed line over the sizes that were measured, and what it misses as points below."""
    for cell in line.cells:
        residuals = results.of_cells("residuals", [cell])
        residuals = residuals[residuals["model"] == model]
        parameters = results.of_cells("models", [cell])
        if residuals.empty or parameters.empty:
            continue
        of_model = parameters[parameters["model"] == model]
        values = dict(zip(of_model["parameter"], of_model["value"], strict=True))
        of_cell = line.rows[line.rows["cell"] == cell]
        for part in x.pieces(of_cell):
            places = x.between(part)
            style = {"marker": "_", "markersize": 9, "markeredgewidth": 0.8} if len(part) == 1 else {"dashes": (5, 2.5)}
            top.plot(
                places,
                analysis.load(model).predict(values, places),
                color=INK,
                linewidth=0.8,
                zorder=3,
                **style,
            )
        below.plot(residuals["x_value"], residuals["relative_residual"], marker, color=colour, markersize=3.5)


def _finish_y(axes: Axes, figure: Figure, benchmark: Benchmark, rows: pd.DataFrame) -> None:
    metric = benchmark.metric(figure.metric)
    unit = metric.unit if metric else str(rows["unit"].iloc[0])
    shown = f"{unit}, " if unit != "1" else ""
    axes.set_ylabel(f"{figure.title} ({shown}{rows['better'].iloc[0]} is better)", rotation_mode="anchor")
    extremes = rows[["median", "ci_low", "ci_high"]].to_numpy(dtype=float)
    low, high = np.nanmin(extremes), np.nanmax(extremes)
    if figure.y_log and low > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 30 else (1.0, 2.0, 5.0), numticks=20))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=min(0, low))
    plain = StrMethodFormatter("{x:,g}")  # a ratio takes no prefix
    axes.yaxis.set_major_formatter(plain if unit == "1" else EngFormatter(unit=display_unit(unit)))
    axes.grid(True)


def _finish_residuals(axes: Axes) -> None:
    axes.axhspan(-CLOSE, CLOSE, color=FAINT, alpha=0.5, linewidth=0, zorder=0)
    axes.axhline(0, color=INK, linewidth=0.8)
    reach = max(1.5 * CLOSE, 1.15 * float(np.abs(axes.dataLim.intervaly).max()))
    axes.set_ylim(-reach, reach)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_ylabel("residual", rotation_mode="anchor")
    axes.grid(True, axis="x")


def _legend(canvas: Canvas, axes: Axes, model: str | None) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if model:
        handles += axes.plot([], [], color=INK, linewidth=0.8, dashes=(5, 2.5))
        labels.append(f"{model.capitalize()} model")
    if len(handles) > _MOST_IN_LEGEND:
        left_out = len(handles) - _MOST_IN_LEGEND + 1
        handles = [*handles[: _MOST_IN_LEGEND - 1], *axes.plot([], [], linestyle="none")]
        labels = [*labels[: _MOST_IN_LEGEND - 1], f"... and {left_out} more"]
    if len(handles) > 6:
        columns = max(1, min(3, 100 // max(map(len, labels))))  # a line of the legend holds about a hundred characters
        canvas.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=8)
    elif handles:
        axes.legend(handles, labels, loc="best", fontsize=8)


def _literal(text: str) -> str:
    """Text as it is: a dollar sign of a user's label does not begin a formula."""
    return text.replace("$", r"\$")
