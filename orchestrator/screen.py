"""What the command line prints: tables for people. Each function takes values and prints one thing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from orchestrator import units
from orchestrator.families import BENCHMARKS

if TYPE_CHECKING:
    import pandas as pd

    from orchestrator.backends.base import Check
    from orchestrator.experiment import Experiment
    from orchestrator.plan import Plan

_MOST_ROWS = 12  # groups of rows shown of a summary
_MOST_CELLS = 40  # shown of a plan; the rest is counted


def _console() -> Console:
    """As wide as the terminal; where there is none, wide enough not to fold tables."""
    return Console(width=None if sys.stdout.isatty() else 140)


def _table(*columns: str, title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def doctor(sections: dict[str, list[Check]]) -> None:
    """Every check: ok, or missing with its remedy."""
    console = _console()
    for section, checks in sections.items():
        console.print(f"[bold]{section}[/]")
        for check in checks:
            verdict = "[green]ok     [/]" if check.ok else "[red]missing[/]" if check.required else "[yellow]missing[/]"
            remedy = "" if check.ok else f"; {check.remedy}"
            console.print(f"  {verdict}  {check.name}: {escape(check.seen + remedy)}", soft_wrap=True, highlight=False)


def listing(contents: dict[str, Any]) -> None:
    """What there is to run, and on what."""
    console = _console()
    for benchmark in BENCHMARKS.values():
        console.print(f"[bold]{benchmark.name}[/]  {escape(benchmark.summary)}")
        table = _table("  parameter", "default", "allowed", "meaning")
        for p in benchmark.parameters:
            looped = " (swept inside a launch)" if p.name == benchmark.loops_over else ""
            table.add_row(f"  {p.name}", str(p.default), p.allowed.removeprefix("allowed: "), f"{p.help}{looped}")
        console.print(table)
        for metric in benchmark.metrics:
            console.print(
                f"  gives {metric.name} in {metric.unit} ({metric.better} is better): {escape(metric.help)}", ""
            )
    for name in ("backends", "fabrics", "manifests"):
        console.print(f"[bold]{name}[/]  {escape(', '.join(contents[name]))}")


def plan(experiment: Experiment, made: Plan, backend: str) -> None:
    """Cells, counts, order, forecast and warnings."""
    console = _console()
    manifest = experiment.manifest
    title = manifest.title or manifest.name
    table = _table("cell", "benchmark", "parameters", "transport", title=f"[bold]{escape(title)}[/]")
    cells = {index: made.cells[index] for index in sorted({index for index, _ in made.order})}
    for index, cell in list(cells.items())[:_MOST_CELLS]:
        table.add_row(
            str(index + 1), f"{cell.label} ({cell.benchmark})", escape(cell.shown_parameters()), cell.transport
        )
    console.print(table)
    if len(cells) > _MOST_CELLS:
        console.print(f"... and {len(cells) - _MOST_CELLS} more cells")
    order = " ".join(f"{index + 1}.{launch}" for index, launch in made.order[:12])
    console.print(
        f"\n{len(cells)} cells x {manifest.launches} launches = {len(made.order)} launches of "
        f"{manifest.repetitions} repetitions after {manifest.warmup} to warm up, on {made.nodes} nodes ({backend})"
    )
    console.print(f"order (cell.launch, seed {made.seed}): {order}{' ...' if len(made.order) > 12 else ''}")
    console.print(f"about {units.show_seconds(made.estimated_s)} (a rough forecast)")
    for warning in made.warnings:
        console.print(f"[yellow]warning:[/] {escape(warning)}")


def summary(frame: pd.DataFrame, launches: pd.DataFrame, run: Path) -> None:
    """A short table: each metric of each cell at both ends of what it was swept over, and where the rest is."""
    console = _console()
    table = _table("benchmark", "metric", "at", "median", "interval", "launches")
    groups = list(frame.groupby(["cell", "metric"], sort=False))
    for _, rows in groups[:_MOST_ROWS]:
        swept = BENCHMARKS[rows.iloc[0]["benchmark"]].loops_over
        ordered = rows.sort_values(swept) if swept else rows
        for _, row in (ordered.iloc[[0, -1]] if len(ordered) > 1 else ordered).iterrows():
            at = (
                units.show_bytes(int(row[swept]))
                if swept == "message_bytes"
                else f"{swept}={row[swept]}"
                if swept
                else ""
            )
            interval = ""
            if row["ci_low"] == row["ci_low"]:
                low, high = (units.show_si(row[end], row["unit"]) for end in ("ci_low", "ci_high"))
                interval = f"{low} to {high} ({row['ci_level']:.0%})"
            median = units.show_si(row["median"], row["unit"])
            table.add_row(row["label"], row["metric"], at, median, interval, str(row["launches"]))
    if len(frame):
        console.print(table, "")
    if len(groups) > _MOST_ROWS:
        console.print(f"... and {len(groups) - _MOST_ROWS} more in summary.csv\n")
    counts = launches["status"].value_counts()
    verdict = ", ".join(f"{count} {status}" for status, count in counts.items())
    console.print(f"launches: {verdict}")
    console.print(f"tables, figures and page: {run}/index.html", soft_wrap=True, highlight=False)
