"""Tables from raw records made by hand: typed, complete, and true to their schemas."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from frictionless import Package

from orchestrator import plan, project, tables
from orchestrator.errors import MpibedError
from orchestrator.families import BENCHMARKS
from orchestrator.records import RunFolder
from tests.unit.test_manifest import USE

LAUNCHES, REPETITIONS = 3, 4
MANIFEST = (
    f"{USE}    sweep: {{matrix: {{message_bytes: [1, 8, 64, 512]}}}}\n"
    f"  - benchmark: p2p.bandwidth\nlaunches: {LAUNCHES}\nrepetitions: {REPETITIONS}\nwarmup: 2\n"
)
NOISE = {"load1": 0.5, "steal_s": 1.0, "throttled_s": 0.0}


@pytest.fixture
def folder(tmp_path, planned) -> RunFolder:
    """A run with a plan, one session, and no launches yet."""
    made = planned(MANIFEST)
    folder = RunFolder.create(tmp_path / "results", "m", tmp_path / "m.yaml")
    folder.store_plan({"run": folder.run, "analysis": None, **plan.to_json(made)})
    folder.store_session(
        {
            "started": "2026-01-31T12:00:00.000Z", "backend": "local", "command": "mpibed run m.yaml",
            "mpibed_version": "0", "build": {"identity": "b"},
            "nodes": [{"node": "localhost", "facts": {"kernel": "6.1", "turbo_off": ""}}],
        }
    )  # fmt: skip
    return folder


def observations(cell: dict[str, Any]) -> list[dict[str, Any]]:
    metric = BENCHMARKS[cell["benchmark"]].metrics[0]
    return [
        {
            "metric": metric.name, "value": 1e-6 * (1 + repetition + size / 100), "unit": metric.unit, "phase": phase,
            "repetition": repetition, "rank": "all", "operations": 100, "message_bytes": size,
        }
        for size in cell["parameters"]["message_bytes"]
        for phase, count in (("warmup", 2), ("measure", REPETITIONS)) for repetition in range(count)
    ]  # fmt: skip


def record(folder: RunFolder, cell: int = 0, launch: int = 0, **other: Any) -> dict[str, Any]:
    described = folder.plan()["cells"][cell]
    return {
        "run": folder.run, "session": 1, "cell": described, "launch": launch, "attempt": 1, "position": launch,
        "seed": 7, "started": "2026-01-31T12:00:01.000Z", "host": {"before": NOISE, "after": NOISE | {"steal_s": 1.5}},
        "status": "ok", "reason": "", "exit_code": 0, "duration_s": 0.1, "check": "payload verified",
        "program": {"clock": "MPI_Wtime", "clock_resolution_s": 1e-9, "mpi_library": "MPICH"},
        "observations": observations(described), "stdout": [], "stderr": [],
    } | other  # fmt: skip


def collected(folder: RunFolder, *records: dict[str, Any]) -> dict[str, pd.DataFrame]:
    for one in records:
        folder.store_launch(one)
    counts = tables.collect(folder)
    frames = {name: tables.read_run(folder, name) for name in counts}
    assert counts == {name: len(frame) for name, frame in frames.items()}
    return frames


def test_a_whole_run_gives_tables_that_fit_their_schemas(folder):
    whole = [record(folder, cell, launch) for cell in range(2) for launch in range(LAUNCHES)]
    frames = collected(folder, *whole)
    sizes = 4 + 1
    assert sizes * LAUNCHES * (REPETITIONS + 2) == len(frames["samples"])
    assert len(frames["launches"]) == 2 * LAUNCHES
    assert sizes == len(frames["summary"])
    assert {"t0", "r_inf"} <= set(frames["models"]["parameter"])
    package = Package(str(folder.path / "datapackage.json"))
    assert {resource.name for resource in package.resources} == set(frames)
    assert package.validate().valid


def test_columns_have_the_type_the_schema_says(folder):
    samples = collected(folder, record(folder), record(folder, cell=1))["samples"]
    assert "Int64" == samples["message_bytes"].dtype == samples["window"].dtype == samples["repetition"].dtype
    assert samples["value"].dtype == "float64"
    assert samples["outlier"].dtype == "boolean"
    of_latency = samples["benchmark"] == "p2p.latency"
    assert samples.loc[of_latency, "window"].isna().all()  # a parameter it does not have is empty
    assert (samples.loc[~of_latency, "window"] == 64).all()
    assert {("one_way_latency", "s", "lower"), ("bandwidth", "B/s", "higher")} == set(
        samples[["metric", "unit", "better"]].itertuples(index=False, name=None)
    )


def test_warm_up_is_flagged_and_never_summarised(folder):
    frames = collected(folder, record(folder))
    phases = frames["samples"]["phase"].value_counts()
    assert phases.to_dict() == {"warmup": 4 * 2, "measure": 4 * REPETITIONS}
    assert frames["summary"]["samples"].to_list() == [REPETITIONS] * 4


def test_a_failed_launch_gives_a_row_with_its_reason_and_no_samples(folder):
    failed = record(folder, launch=1, status="failed", reason="timed out after 60 s", exit_code=None)
    frames = collected(folder, record(folder), failed)
    row = frames["launches"].query("launch == 1 and cell == @failed['cell']['id']").iloc[0]
    assert (row["status"], row["reason"]) == ("failed", "timed out after 60 s")
    assert pd.isna(row["exit_code"])
    assert {0} == set(frames["samples"]["launch"])


def test_every_attempt_has_a_row(folder):
    failed = record(folder, status="failed", reason="a rank was killed by signal 9")
    launches = collected(folder, failed, record(folder, attempt=2))["launches"].query("status != 'skipped'")
    assert list(launches[["attempt", "status"]].itertuples(index=False, name=None)) == [(1, "failed"), (2, "ok")]


def test_a_planned_launch_without_a_record_is_skipped(folder):
    launches = collected(folder, record(folder))["launches"]
    assert launches["status"].value_counts().to_dict() == {"ok": 1, "skipped": 2 * LAUNCHES - 1}
    skipped = launches[launches["status"] == "skipped"]
    assert skipped["reason"].str.startswith("the run ended before it").all()
    assert skipped["duration_s"].isna().all()


def test_a_run_without_any_launch_has_tables_all_the_same(folder):
    frames = collected(folder)
    assert {"skipped"} == set(frames["launches"]["status"])
    assert 0 == len(frames["samples"]) == len(frames["summary"]) == len(frames["models"])


def test_noise_is_told_as_what_the_launch_added(folder):
    row = collected(folder, record(folder))["launches"].iloc[0]
    assert (row["steal_s"], row["throttled_s"]) == (0.5, 0.0)


def test_the_environment_has_a_row_per_fact_and_node(folder):
    environment = collected(folder, record(folder))["environment"]
    facts = {(row.node, row.fact): row.value for row in environment.itertuples()}
    assert (facts["*", "mpi_library"], facts["*", "build"], facts["localhost", "kernel"]) == ("MPICH", "b", "6.1")
    assert pd.isna(facts["localhost", "turbo_off"])


def test_what_a_program_says_cannot_change_whose_sample_it_is(folder):
    lies = record(folder)
    lies["observations"] = [one | {"launch": 99, "run": "x", "surprise": 1} for one in lies["observations"]]
    samples = collected(folder, lies)["samples"]
    assert {0} == set(samples["launch"])
    assert {folder.run} == set(samples["run"])
    assert "surprise" not in samples


@pytest.mark.parametrize("program", [{}, {"clock": 5, "clock_resolution_s": "fine", "mpi_library": ["x"]}])
def test_facts_that_make_no_sense_are_left_empty(program, folder):
    frames = collected(folder, record(folder, program=program))
    row = frames["launches"].iloc[0]
    assert pd.isna(row["clock"])
    assert pd.isna(row["clock_resolution_s"])


@pytest.mark.parametrize("text", ['a "quoted", comma', "two\nlines", "é\u2028", "\ud800", "=1+1", "\x1b[31m"])
def test_any_reason_survives_the_way_through_the_csv(text, folder):
    launches = collected(folder, record(folder, status="failed", reason=text))["launches"]
    assert text.encode("utf-8", "replace").decode() == launches.iloc[0]["reason"]


def test_tables_are_rfc_4180_in_utf_8(folder):
    collected(folder, record(folder, check="é, ü"))
    raw = (folder.path / "launches.csv").read_bytes()
    assert raw.count(b"\r\n") == raw.count(b"\n") == 1 + 2 * LAUNCHES
    with (folder.path / "launches.csv").open(encoding="utf-8", newline="") as handle:
        widths = {len(row) for row in csv.reader(handle)}
    assert len(widths) == 1


def test_collecting_twice_gives_the_same_bytes(folder):
    collected(folder, record(folder), record(folder, cell=1))
    first = {path.name: path.read_bytes() for path in folder.path.glob("*.csv")}
    tables.collect(folder)
    assert first == {path.name: path.read_bytes() for path in folder.path.glob("*.csv")}


def test_a_table_that_does_not_fit_its_schema_is_never_passed_off_as_good(folder):
    with pytest.raises(MpibedError, match=r"launches\.csv does not fit its schema"):
        collected(folder, record(folder, status="splendid"))


def test_the_data_dictionary_is_what_the_tables_are_made_from(monkeypatch, tmp_path):
    kept = {path.name: path.read_bytes() for path in (project.ROOT / "results" / "schema").glob("*.json")}
    (tmp_path / "results" / "schema").mkdir(parents=True)
    monkeypatch.setattr(project, "ROOT", tmp_path)
    tables.main()
    assert {path.name: path.read_bytes() for path in Path(tmp_path / "results" / "schema").iterdir()} == kept


def test_every_column_says_what_it_is():
    for columns in tables.schemas(BENCHMARKS.values()).values():
        assert len({column.name for column in columns}) == len(columns)
        assert all(field["description"] for field in json.loads(json.dumps(tables.descriptor(columns)))["fields"])


def test_a_reference_stands_beside_the_rows_it_is_of(folder: RunFolder) -> None:
    folder.store_launch(record(folder))
    text = "message_bytes,metric,value,unit,source\n8,one_way_latency,3e-6,s,a paper\n9,one_way_latency,1,s,a paper\n"
    (folder.path / "reference.csv").write_text(text, encoding="utf-8")
    tables.collect(folder)
    summary = tables.read_run(folder, "summary").set_index("message_bytes")
    assert summary.loc[8, "reference"] == 3e-6
    assert summary["reference"].count() == 1
    assert len(summary) == 4


def test_a_reference_with_two_values_for_one_row_is_refused(folder: RunFolder) -> None:
    folder.store_launch(record(folder))
    text = "message_bytes,metric,value\n8,one_way_latency,1\n8,one_way_latency,2\n"
    (folder.path / "reference.csv").write_text(text, encoding="utf-8")
    with pytest.raises(MpibedError, match="two values for the same message_bytes, metric"):
        tables.collect(folder)
