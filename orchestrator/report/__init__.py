"""The report of a run: figures, and one page to read. It works from the files of the run directory alone."""

from __future__ import annotations

from pathlib import Path


def build(run_dir: Path) -> Path:
    """Draw the figures and write index.html into `run_dir`; gives the page. The same files give the same bytes."""
    from orchestrator.report import page  # here, so that a command without a report does not wait for matplotlib

    return page.build(run_dir)


def build_overview(results: Path) -> Path:
    """Write one page over the latest run of every experiment under `results`; gives the page."""
    from orchestrator.report import overview

    return overview.build(results)
