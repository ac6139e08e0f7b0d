"""The page over all experiments, from plans and launch tables made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator import report
from orchestrator.errors import UsageError

LAUNCHES = "cell,launch,attempt,status\r\na,0,1,failed\r\na,0,2,ok\r\na,1,1,ok\r\nb,0,,skipped\r\n"


def _run(results: Path, name: str, title: str) -> None:
    run = results / name / "20260131-120000-0000"
    (run / "figures").mkdir(parents=True)
    plan = {
        "experiment": name,
        "title": title,
        "description": "",
        "scale": "smoke",
        "backend": "local",
        "run": run.name,
    }
    (run / "plan.json").write_text(json.dumps(plan | {"warnings": ["mind this"]}), encoding="utf-8")
    (run / "launches.csv").write_text(LAUNCHES, encoding="utf-8")
    (run / "figures" / "a-b.svg").write_text("<svg/>", encoding="utf-8")
    (results / name / "latest").symlink_to(run.name)


def test_every_experiment_is_listed_with_how_it_went_and_its_figures(tmp_path: Path) -> None:
    _run(tmp_path, "one", "First")
    _run(tmp_path, "two", "Second <script>")
    page = report.build_overview(tmp_path)
    text = page.read_text(encoding="utf-8")
    assert page == tmp_path / "index.html"
    assert "First" in text
    assert "<script>" not in text
    assert "2 ok" in text  # the last attempt decides
    assert "1 skipped" in text
    assert 'src="one/20260131-120000-0000/figures/a-b.svg"' in text
    assert "mind this" in text


def test_without_a_run_there_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no run under"):
        report.build_overview(tmp_path)
