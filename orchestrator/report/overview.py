"""One page over the latest run of every experiment: how each went, and its figures, with the way to its own page."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

from orchestrator.errors import UsageError
from orchestrator.report.template import render


def build(results: Path) -> Path:
    """Write index.html into the results folder; gives its path. UsageError when there is no run."""
    latest = sorted(plan.parent for plan in results.glob("*/latest/plan.json"))
    if not latest:
        raise UsageError(f"there is no run under {results}; `mpibed run MANIFEST` makes one")
    page = results / "index.html"
    page.write_text(render("overview", experiments=[_experiment(results, run) for run in latest]), encoding="utf-8")
    return page


def _experiment(results: Path, latest: Path) -> dict[str, Any]:
    """What the page says of an experiment's latest run; addresses are relative to the results folder."""
    run = latest.resolve()
    plan = json.loads((run / "plan.json").read_text(encoding="utf-8"))
    folder = Path(latest.parent.name) / run.name
    return {
        "name": plan["experiment"],
        "title": plan["title"],
        "description": plan["description"],
        "scale": plan["scale"],
        "backend": plan["backend"],
        "run": plan["run"],
        "counts": _counts(run / "launches.csv"),
        "warnings": plan["warnings"],
        "page": folder / "index.html",
        "figures": [folder / "figures" / figure.name for figure in sorted((run / "figures").glob("*.svg"))],
    }


def _counts(launches: Path) -> dict[str, int]:
    """Launches by the status of their last attempt."""
    if not launches.is_file():
        return {}
    with launches.open(newline="", encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["attempt"] or 0))
    return dict(Counter({(row["cell"], row["launch"]): row["status"] for row in rows}.values()))
