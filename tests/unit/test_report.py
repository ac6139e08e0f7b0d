"""The report: what a reader must find, whatever happened in the run."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from orchestrator import analysis, report
from orchestrator.analysis import statistics
from orchestrator.errors import UsageError
from orchestrator.families import BENCHMARKS, Benchmark, Figure, Metric, Parameter

SIZES = (0, *(2**power for power in range(23)))
RUN = "20260314-150926-4f2a"


def samples_of(
    cell: dict[str, Any],
    metric: str,
    unit: str,
    value: Any,
    launches: int = 7,
    repetitions: int = 20,
    sizes: Any = SIZES,
) -> pd.DataFrame:
    """Samples as a run writes them: `value(m)` with noise between launches, within them, and a few outliers."""
    draw = np.random.default_rng(7)
    size, launch, repetition = (
        a.ravel() for a in np.meshgrid(sizes, range(launches), range(-2, repetitions), indexing="ij")
    )
    noise = draw.lognormal(0, 0.01, (launches, len(sizes)))[launch, np.searchsorted(sizes, size)]
    noise *= draw.lognormal(0, 0.02, len(size)) * np.where(draw.random(len(size)) < 0.02, 1.6, 1.0)
    better = "lower" if unit == "s" else "higher"
    frame = pd.DataFrame({"message_bytes": size, "launch": launch, "repetition": repetition})
    frame["value"] = value(size) * (noise if better == "lower" else 1 / noise) * np.where(repetition < 0, 3.0, 1.0)
    frame["phase"] = np.where(repetition < 0, "warmup", "measure")
    fixed = {name: cell[name] for name in ("label", "benchmark", "nodes", "ranks_per_node")}
    parameters = {name: v for name, v in cell["parameters"].items() if name != "message_bytes"}
    return frame.assign(
        run=RUN,
        cell=cell["id"],
        **fixed,
        **parameters,
        rank="all",
        metric=metric,
        unit=unit,
        better=better,
        operations=100,
    )


def a_cell(number: int, benchmark: str, pairs: int = 1, sizes: Any = SIZES) -> dict[str, Any]:
    extra = {"exchanges": 100} if benchmark == "p2p.latency" else {"window": 64}
    return {
        "id": f"{number:02d}e4567890",
        "label": benchmark.partition(".")[2],
        "benchmark": benchmark,
        "parameters": {"message_bytes": list(sizes), "pairs": pairs, **extra},
        "nodes": 2,
        "ranks_per_node": pairs,
        "transport": "tcp",
        "fabric": "none",
        "mode": "pc",
        "repetitions": 20,
        "warmup": 2,
    }


def latency(m: Any) -> Any:
    return 10.7e-6 + m / 3.1e9


def write_run(
    directory: Path,
    cells: list[dict[str, Any]],
    frames: list[pd.DataFrame],
    launches: int = 7,
    plan: dict[str, Any] | None = None,
    change_launches: Any = None,
) -> Path:
    """A run directory as the earlier stages leave it."""
    run_dir = directory / "quickstart" / RUN
    (run_dir / "raw").mkdir(parents=True)
    fields = {
        "schema": 1,
        "run": RUN,
        "experiment": "quickstart",
        "title": "Point-to-point between two containers",
        "description": "Latency and bandwidth of two nodes on one bridge, over message sizes from nothing to 4 MiB.",
        "scale": "full",
        "seed": 20260314,
        "backend": "docker",
        "build": {"identity": "sha256:5b1f0c9e2d74", "description": "MPICH 5.0.2, UCX"},
        "mpibed_version": "0.1.0",
        "created": "2026-03-14T15:09:26.535Z",
        "launches": launches,
        "figures": None,
        "cells": cells,
        "warnings": ["8 ranks on 2 cores: ranks wait for each other's time slices, and the times include it."],
    }
    (run_dir / "plan.json").write_text(json.dumps(fields | (plan or {})))
    rows = [
        {
            "run": RUN, "cell": cell["id"], "label": cell["label"], "benchmark": cell["benchmark"], "launch": launch,
            "attempt": 1, "status": "ok", "reason": None, "check": "payload verified",
            "started": "2026-03-14T15:10:00Z", "duration_s": 4.2, "position": launch, "seed": 1,
            "load1_before": 0.4, "steal_s": 0.0, "throttled_s": 0.0, "clock": "MPI_Wtime",
        }
        for cell in cells for launch in range(launches)
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    if change_launches is not None:
        table = change_launches(table)
    table.to_csv(run_dir / "launches.csv", index=False)
    facts = {"kernel": "6.8.0", "cpu_model": "AMD EPYC 7763", "cores": "2", "memory_bytes": str(8 << 30)}
    facts |= {"mpi_library": "MPICH 5.0.2", "image_digest": "sha256:5b1f0c9e2d74"}
    command = {"fact": "command", "value": "mpibed run experiments/quickstart.yaml"}
    pd.DataFrame(
        [
            {"run": RUN, "session": 1, "node": "*", **command},
            *(
                {"run": RUN, "session": 1, "node": node, "fact": fact, "value": value}
                for node in ("node0", "node1")
                for fact, value in (facts | {"hostname": node}).items()
            ),
        ]
    ).to_csv(run_dir / "environment.csv", index=False)
    if frames:
        samples = pd.concat(frames, ignore_index=True)
        samples["outlier"] = statistics.flag_outliers(samples)
        summary = statistics.summarise(samples, statistics.parameter_columns(samples))
        models, residuals = analysis.run_models(samples, summary)
        tables = {"samples": samples, "summary": summary, "models": models, "residuals": residuals}
        for name, frame in tables.items():
            frame.to_csv(run_dir / f"{name}.csv", index=False)
    return run_dir


def point_to_point(directory: Path, launches: int = 7, **changes: Any) -> Path:
    """Latency by one and two pairs, bandwidth by one: what a laptop's first run looks like."""
    cells = [a_cell(1, "p2p.latency", 1), a_cell(2, "p2p.latency", 2), a_cell(3, "p2p.bandwidth")]
    frames = [
        samples_of(cells[0], "one_way_latency", "s", latency, launches),
        # An eager limit at 8 KiB: this curve is not affine.
        samples_of(
            cells[1], "one_way_latency", "s", lambda m: latency(2 * m) + np.where(m > 8192, 2e-5, 0.0), launches
        ),
        samples_of(cells[2], "bandwidth", "B/s", lambda m: m / (2e-6 + m / 3.1e9), launches, sizes=SIZES[1:]),
    ]
    return write_run(directory, cells, frames, launches, **changes)


def read(run_dir: Path) -> str:
    return report.build(run_dir).read_text(encoding="utf-8")


def text_of(page: str) -> str:
    """What a reader sees: the texts of the page, without markup, space runs made one."""
    texts: list[str] = []
    parser = HTMLParser()
    parser.handle_data = texts.append  # type: ignore[method-assign]
    parser.feed(page)
    return re.sub(r"\s+", " ", " ".join(texts))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = point_to_point(tmp_path_factory.mktemp("finished"))
    report.build(run_dir)
    return run_dir


def page_of(run_dir: Path) -> str:
    return (run_dir / "index.html").read_text(encoding="utf-8")


def test_the_page_says_what_ran_on_what_and_how_it_went(finished: Path) -> None:
    seen = text_of(page_of(finished))
    for said in (
        *("Point-to-point between two containers", RUN, "2026-03-14 15:09:26 UTC", "docker", "shuffled, seed 20260314"),
        *("8 ranks on 2 cores", "Launches: 21 ok", "payload verified", "AMD EPYC 7763", "8.0 GiB", "MPI_Wtime"),
        "mpibed run experiments/quickstart.yaml",
        "mpibed report " + RUN,
    ):
        assert said in seen


def test_a_caption_defines_the_metric_and_states_n_and_the_level_of_the_interval(finished: Path) -> None:
    seen = text_of(page_of(finished))
    assert "half the mean round trip of a repetition's exchanges; slowest pair" in seen
    assert "Medians of 7 launch medians (20 repetitions each) with 98.4 % confidence intervals" in seen


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing(finished: Path) -> None:
    page = page_of(finished)
    for absent in ("<script", "<link", "<img", "@import", "url(http", 'src="'):
        assert absent not in page
    links = re.findall(r'href="([^"#]+)"', page)
    assert links and all((finished / link).exists() for link in links)


def test_ids_of_the_figures_do_not_clash_and_references_resolve(finished: Path) -> None:
    page = page_of(finished)
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(#|href="#)([^)"]+)', page)) <= set(ids)


def test_inlined_figures_take_the_colours_of_the_page(finished: Path) -> None:
    svg = page_of(finished).partition("<svg")[2].partition("</svg>")[0]
    assert "currentColor" in svg and "var(--series-1)" in svg
    assert not re.findall(r"#[0-9a-f]{6}\b", svg)


def test_figures_are_drawn_as_png_and_svg_and_keep_zero_bytes(finished: Path) -> None:
    drawn = sorted(path.name for path in (finished / "figures").iterdir())
    assert [
        f"p2p.{kind}.{end}" for kind in ("bandwidth-bandwidth", "latency-latency") for end in ("png", "svg")
    ] == drawn
    svg = (finished / "figures" / "p2p.latency-latency.svg").read_text()
    for label in ("0 B", "1 B", "4 KiB", "1 ms", "pairs = 2", "Hockney model", "residual"):
        assert f">{label}</text>" in svg
    assert ">0 B</text>" not in (finished / "figures" / "p2p.bandwidth-bandwidth.svg").read_text()


def test_rebuilding_gives_the_same_bytes(finished: Path) -> None:
    files = [finished / "index.html", *(finished / "figures").iterdir()]
    before = {path: path.read_bytes() for path in files}
    report.build(finished)
    assert before == {path: path.read_bytes() for path in files}


def test_the_fit_is_judged_in_plain_words(finished: Path) -> None:
    seen = text_of(page_of(finished))
    assert "The model holds: it misses no point by more than" in seen
    assert "The model does not describe this curve: it is off by up to" in seen
    assert "(at 16 KiB)" in seen


def test_few_launches_are_said_to_be_few(tmp_path: Path) -> None:
    seen = text_of(read(point_to_point(tmp_path, launches=3)))
    assert "Medians of 3 launch medians (20 repetitions each) with their minimum and maximum (75 % confidence)" in seen


def test_fewer_launches_than_planned_are_warned_of(tmp_path: Path) -> None:
    seen = text_of(read(point_to_point(tmp_path, launches=3, plan={"launches": 10})))
    assert "As few as 3 launches stand behind some medians" in seen
    assert "95 % confidence needs at least 6" in seen


def test_a_single_launch_has_no_interval(tmp_path: Path) -> None:
    seen = text_of(read(point_to_point(tmp_path, launches=1)))
    assert "Medians of a single launch (20 repetitions): no interval" in seen


def test_text_from_outside_stays_text(tmp_path: Path) -> None:
    """Labels, reasons, outputs and facts come from elsewhere; none of them may become markup or a formula."""
    evil = "<script>alert('x')</script> $\\frac{</svg><b onload=x>&"
    cells = [a_cell(1, "p2p.latency"), a_cell(2, "p2p.latency")]
    for cell in cells:
        cell["label"] = evil + cell["id"]
    frames = [samples_of(cell, "one_way_latency", "s", latency) for cell in cells]
    plan = {"title": evil, "description": evil, "warnings": [evil], "command": evil, "backend": evil}

    def fail_one(launches: pd.DataFrame) -> pd.DataFrame:
        launches = launches.astype({"reason": object})
        launches.loc[0, ["status", "reason", "check"]] = ["failed", evil, evil]
        return launches

    run_dir = write_run(tmp_path, cells, frames, plan=plan, change_launches=fail_one)
    write_record(run_dir, cells[0], 0, [evil])
    page = read(run_dir)
    assert "<script" not in page and "<b " not in page
    assert page.count("<svg") == page.count("</svg>") == 1
    assert page.count("&lt;script&gt;") > 10
    assert evil in text_of(page)


def write_record(run_dir: Path, cell: dict[str, Any], launch: int, stderr: list[str]) -> None:
    record = run_dir / "raw" / cell["id"] / f"{launch:04d}.1.json"
    record.parent.mkdir(exist_ok=True)
    record.write_text(json.dumps({"stderr": stderr, "stdout": []}))


def all_failed(launches: pd.DataFrame) -> pd.DataFrame:
    return launches.assign(
        status="failed", reason="rank 1 was killed by signal 9", check=None, output="BAD TERMINATION"
    )


def test_a_run_where_all_failed_is_reported_with_reason_and_output(tmp_path: Path) -> None:
    cell = a_cell(1, "p2p.latency")
    run_dir = write_run(tmp_path, [cell], [], change_launches=all_failed)
    write_record(run_dir, cell, 3, ["BAD TERMINATION"])
    page = read(run_dir)
    seen = text_of(page)
    assert "No launch succeeded" in seen and "Launches: 7 failed" in seen
    assert "rank 1 was killed by signal 9" in seen and "BAD TERMINATION" in seen
    assert page.count(">raw record</a>") == 1 and 'href="raw/01e4567890/0003.1.json"' in page


def test_a_later_attempt_decides_the_verdict_but_the_failure_is_still_told(tmp_path: Path) -> None:
    def retried(launches: pd.DataFrame) -> pd.DataFrame:
        first = launches.head(1).assign(status="failed", reason="timed out after 60 s")
        return pd.concat([first, launches.assign(attempt=[2, *[1] * (len(launches) - 1)])], ignore_index=True)

    cell = a_cell(1, "p2p.latency")
    frames = [samples_of(cell, "one_way_latency", "s", latency)]
    seen = text_of(read(write_run(tmp_path, [cell], frames, change_launches=retried)))
    assert "Launches: 7 ok ." in seen.replace("ok.", "ok .") and "timed out after 60 s" in seen


def test_stolen_cpu_time_is_warned_of(tmp_path: Path) -> None:
    cell = a_cell(1, "p2p.latency")
    frames = [samples_of(cell, "one_way_latency", "s", latency)]
    run_dir = write_run(tmp_path, [cell], frames, change_launches=lambda table: table.assign(steal_s=0.42))
    assert "CPU time was stolen by the hypervisor during 7 of 7 launches, up to 10 %" in text_of(read(run_dir))


def test_a_run_with_only_a_plan_still_has_a_page(tmp_path: Path) -> None:
    plan = {"schema": 1, "run": RUN, "experiment": "empty", "title": "", "cells": [a_cell(1, "p2p.latency")]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert "nothing was measured" in text_of(read(tmp_path))


def test_optional_columns_may_be_missing(tmp_path: Path) -> None:
    def bare(launches: pd.DataFrame) -> pd.DataFrame:
        return launches[["run", "cell", "label", "benchmark", "launch", "status"]].assign(status="failed")

    assert "no reason recorded" in text_of(
        read(write_run(tmp_path, [a_cell(1, "p2p.latency")], [], change_launches=bare))
    )


def test_a_benchmark_unknown_to_this_version_is_still_tabulated(tmp_path: Path) -> None:
    cell = a_cell(1, "future.thing")
    seen = text_of(read(write_run(tmp_path, [cell], [samples_of(cell, "elapsed", "s", latency)])))
    assert "not known to this version" in seen and "Elapsed in numbers" in seen


def test_many_combinations_do_not_drown_the_page(tmp_path: Path) -> None:
    sizes = (0, 1024, 1 << 20)
    cells = [a_cell(pairs, "p2p.latency", pairs, sizes) for pairs in range(1, 31)]
    frames = [samples_of(c, "one_way_latency", "s", lambda m, c=c: latency(m) * c["nodes"], 2, 3, sizes) for c in cells]
    page = read(write_run(tmp_path, cells, frames, launches=2))
    assert page.count("<summary>pairs") == 12
    assert "18 more tables like these" in text_of(page)
    assert "30 cells, all ok, are not listed" in text_of(page)


def test_cells_are_told_apart_by_what_the_plan_says_of_them(tmp_path: Path) -> None:
    """The label may be the same and the parameters too: here the fabric is the difference."""
    cells = [a_cell(1, "p2p.latency"), {**a_cell(2, "p2p.latency"), "fabric": "gigabit"}]
    frames = [samples_of(cell, "one_way_latency", "s", latency) for cell in cells]
    run_dir = write_run(tmp_path, cells, frames)
    assert "fabric = gigabit" in text_of(read(run_dir))
    assert ">fabric = gigabit</text>" in (run_dir / "figures" / "p2p.latency-latency.svg").read_text()


def test_a_manifest_chooses_among_the_figures(tmp_path: Path) -> None:
    run_dir = point_to_point(tmp_path, launches=1, plan={"figures": ["bandwidth"]})
    assert read(run_dir).count("<svg") == 1
    assert [path.name for path in (run_dir / "figures").glob("*.svg")] == ["p2p.bandwidth-bandwidth.svg"]


def a_benchmark(figure: Figure) -> Benchmark:
    algorithm = Parameter("algorithm", "ring", "the algorithm", choices=("ring", "tree"))
    return Benchmark(
        "toy.rate", "toy", "a toy", (algorithm, Parameter("ranks", 2, "ranks")),
        (Metric("rate", "1/s", "higher", "messages over time"),), figures=(figure,),
    )  # fmt: skip


def toy_run(directory: Path, monkeypatch: pytest.MonkeyPatch, figure: Figure, points: list[dict[str, Any]]) -> str:
    """The SVG of a benchmark with one cell per point."""
    monkeypatch.setitem(BENCHMARKS, "toy.rate", a_benchmark(figure))
    cells = [{**a_cell(n, "toy.rate"), "parameters": point} for n, point in enumerate(points)]
    frames = [
        samples_of(cell, "rate", "1/s", lambda m, n=n: 1e6 + 1e5 * n + 0 * m, sizes=(0,)).drop(columns="message_bytes")
        for n, cell in enumerate(cells)
    ]
    run_dir = write_run(directory, cells, frames)
    report.build(run_dir)
    return (run_dir / "figures" / f"toy.rate-{figure.name}.svg").read_text()


def joined(svg: str) -> int:
    """How many lines join points: drawn half opaque, unlike anything else."""
    return svg.count("stroke-opacity: 0.55")


def test_names_on_the_x_axis_are_not_joined_by_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = Figure("by_algorithm", "Rate", x="algorithm", metric="rate")
    points = [{"algorithm": name, "ranks": 2} for name in ("ring", "tree")]
    svg = toy_run(tmp_path, monkeypatch, figure, points)
    assert ">ring</text>" in svg
    assert ">tree</text>" in svg
    assert joined(svg) == 0


def test_a_parameter_swept_over_cells_makes_a_line_across_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = Figure("by_ranks", "Rate", x="ranks", metric="rate", y_log=False)
    points = [{"algorithm": name, "ranks": ranks} for name in ("ring", "tree") for ranks in (2, 4, 8, 64)]
    svg = toy_run(tmp_path, monkeypatch, figure, points)
    assert ">algorithm = tree</text>" in svg
    assert ">64</text>" in svg
    assert ">1 M/s</text>" in svg
    assert joined(svg) == 2


def test_a_directory_without_a_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no plan\.json"):
        report.build(tmp_path)


def test_importing_the_report_loads_neither_pandas_nor_matplotlib() -> None:
    import subprocess
    import sys

    heavy = "{'pandas', 'matplotlib', 'scipy'}"
    code = f"import sys, orchestrator.report, orchestrator.analysis; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"
