"""A run's folder: whole documents or none, one writer, nothing overwritten, and a full disk told as such."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import records
from orchestrator.errors import MpibedError, UsageError
from orchestrator.records import RunFolder
from tests.conftest import QUICKSTART


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    return RunFolder.create(tmp_path / "results", "quickstart", QUICKSTART)


def launch(cell="c0ffee", number=0, attempt=1, status="ok", **other):
    return {"cell": {"id": cell}, "launch": number, "attempt": attempt, "status": status} | other


def test_a_new_run_has_the_manifest_as_written(folder):
    assert QUICKSTART.read_bytes() == (folder.path / "manifest.yaml").read_bytes()


def test_run_ids_of_one_second_differ():
    assert len({records.new_run_id() for _ in range(20)}) > 1


def test_documents_are_read_back_as_they_were_stored(folder):
    folder.store_plan({"a": 1})
    assert folder.store_session({"s": "é"}) == 1
    assert folder.store_session({"s": 2}) == 2
    stored = [launch(number=1), launch(number=0), launch(cell="beef")]
    for record in stored:
        folder.store_launch(record)
    assert folder.plan() == {"a": 1}
    assert folder.sessions() == [{"s": "é"}, {"s": 2}]
    assert [stored[2], stored[1], stored[0]] == list(folder.launches())


def test_what_a_crash_left_half_written_is_no_record(folder):
    folder.store_launch(launch())
    for half in ("raw/c0ffee/.0001.1.json.part", "raw/sessions/.1.json.part", ".plan.json.part"):
        (folder.path / half).write_text('{"cell": {"id": ', encoding="utf-8")
    assert [launch()] == list(folder.launches())
    assert folder.sessions() == []
    assert folder.next_attempt("c0ffee", 1) == 1
    with pytest.raises(UsageError, match=r"holds no plan\.json"):
        folder.plan()
    folder.store_launch(launch(number=1))
    assert len(list(folder.launches())) == 2


def test_a_record_is_renamed_into_place_and_nothing_else_is_left(folder):
    folder.store_launch(launch())
    assert [path.name for path in (folder.path / "raw" / "c0ffee").iterdir()] == ["0000.1.json"]


def test_a_launch_that_is_tried_again_keeps_its_first_attempt(folder):
    for status in ("failed", "failed", "ok"):
        folder.store_launch(launch(attempt=folder.next_attempt("c0ffee", 0), status=status))
    assert [(r["attempt"], r["status"]) for r in folder.launches()] == [(1, "failed"), (2, "failed"), (3, "ok")]


def test_only_a_launch_with_an_ok_attempt_is_finished(folder):
    for number, attempt, status in ((0, 1, "failed"), (0, 2, "ok"), (1, 1, "failed"), (2, 1, "ok")):
        folder.store_launch(launch(number=number, attempt=attempt, status=status))
    assert {("c0ffee", 0), ("c0ffee", 2)} == folder.finished()


def test_a_damaged_record_is_named(folder):
    folder.store_launch(launch())
    path = folder.path / "raw" / "c0ffee" / "0000.1.json"
    path.write_text(path.read_text()[:-5])
    with pytest.raises(MpibedError, match=r"0000\.1\.json is damaged .*remove it to have it run again"):
        list(folder.launches())


HOLDER = """
import sys
from pathlib import Path
from orchestrator.records import RunFolder
with RunFolder(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    input()
"""


def test_the_lock_excludes_another_process_and_goes_with_it_when_it_is_killed(folder):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, folder.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin and holder.stdout
    assert holder.stdout.readline() == "locked\n"
    assert folder.is_being_written()
    with (
        pytest.raises(UsageError, match=r"another mpibed is writing .*start a run of your own with --fresh"),
        folder.locked(),
    ):
        pass
    holder.kill()
    holder.communicate()
    assert not folder.is_being_written()
    with folder.locked():
        assert folder.is_being_written()


def test_a_run_whose_lock_cannot_be_made_is_told_and_not_taken_for_a_busy_one(folder):
    (folder.path / ".lock").mkdir()
    assert not folder.is_being_written()
    with pytest.raises(MpibedError, match="cannot be written"), folder.locked():
        pass


def test_latest_leads_to_the_run_that_was_pointed_at_last(folder):
    other = RunFolder.create(folder.path.parent.parent, "quickstart", QUICKSTART)
    for one in (folder, other, folder):
        one.point_latest_here()
        assert one.path == (one.path.parent / "latest").resolve()
        assert one.run == str((one.path.parent / "latest").readlink())  # relative: the results folder may be moved
    assert {folder.run, other.run, "latest"} == {path.name for path in folder.path.parent.iterdir()}


def test_runs_are_listed_newest_first_without_the_link_and_without_those_that_have_no_plan(folder):
    results = folder.path.parent.parent
    for name in ("20260101-000000-aaaa", "20260102-000000-aaaa"):
        (results / "quickstart" / name).mkdir()
        (results / "quickstart" / name / "plan.json").write_text("{}")
    (results / "quickstart" / "latest").symlink_to("20260101-000000-aaaa")
    assert [one.run for one in records.runs(results, "quickstart")] == ["20260102-000000-aaaa", "20260101-000000-aaaa"]
    assert records.runs(results, "nothing") == []


def test_a_run_is_found_by_its_folder_and_by_its_id(folder):
    results = folder.path.parent.parent
    folder.point_latest_here()
    for name in (str(folder.path), folder.run, str(folder.path.parent / "latest")):
        assert folder.path == records.find(results, name).path


@pytest.mark.parametrize("name", ["20990101-000000-dead", "*", "../..x", "/nonexistent", "quickstart/none"])
def test_a_run_that_is_not_there_is_told(name, folder):
    with pytest.raises(UsageError, match="no run "):
        records.find(folder.path.parent.parent / "elsewhere", name)


def test_results_that_cannot_be_written_are_told_before_anything_runs(tmp_path):
    (tmp_path / "results").write_text("a file")
    with pytest.raises(MpibedError, match=r"cannot be written .*give another folder with --results"):
        RunFolder.create(tmp_path / "results", "quickstart", QUICKSTART)


FILLER = """
import resource, signal, sys
from pathlib import Path
from orchestrator.errors import MpibedError
from orchestrator.records import RunFolder
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
folder = RunFolder(Path(sys.argv[1]))
folder.store_launch({"cell": {"id": "c0ffee"}, "launch": 0, "attempt": 1, "status": "ok"})
try:
    folder.store_launch({"cell": {"id": "c0ffee"}, "launch": 1, "attempt": 1, "status": "ok", "stdout": "x" * 20_000})
except MpibedError as error:
    print(error)
"""


def test_a_disk_that_fills_is_told_and_leaves_what_was_whole(folder):
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    done = subprocess.run([sys.executable, "-c", FILLER, folder.path], capture_output=True, text=True, check=True)
    path = folder.path / "raw" / "c0ffee" / "0001.1.json"
    assert f"no space left to write {path}; free some, then run again: finished launches are kept\n" == done.stdout
    assert [one.name for one in path.parent.iterdir()] == ["0000.1.json"]
    assert json.loads(path.with_name("0000.1.json").read_text())["status"] == "ok"


def test_times_are_utc_in_iso_8601():
    assert records.now().endswith("Z")
    assert Path("x") / records.now().replace(":", "")  # and fit for a file's name
