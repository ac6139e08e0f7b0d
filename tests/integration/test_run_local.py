"""Runs on the local backend, from the command line as a user would: files, tables, resuming, interrupts, two at once."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator import manifest
from orchestrator.backends.local import RUN_VARIABLE
from tests.conftest import QUICKSTART

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("local")]

MPIBED = Path(sys.executable).parent / "mpibed"
DEADLINE_S = 100
# Long enough to be interrupted in the middle: each of its launches takes a good part of a second.
SLOW = """\
schema: 1
name: slow
benchmarks:
  - benchmark: p2p.latency
    sweep: {matrix: {message_bytes: [1, 2], exchanges: [20000, 20001]}}
launches: 3
repetitions: 10
"""


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    """A cache of its own, so that the testbeds of other runs are out of sight; and no Docker."""
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "DOCKER_HOST": "unix:///nonexistent"}


@pytest.fixture
def mpibed(environment) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command, to its end."""

    def call(*words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [MPIBED, *map(str, words)], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=DEADLINE_S, check=False,
        )  # fmt: skip

    return call


@pytest.fixture
def started(environment) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """The command, under way. Its interrupts are as in a terminal, whatever pytest was started from."""
    children = []

    def start(*words: object) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [MPIBED, *map(str, words)], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.01)


def run_folder(results: Path, experiment: str) -> Path:
    (folder,) = [path for path in (results / experiment).iterdir() if not path.is_symlink()]
    return folder


def launches_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("raw/*/*.json") if path.parent.name != "sessions")


def processes_of(run: str) -> list[int]:
    """Living processes that carry the run in their environment."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{RUN_VARIABLE}={run}".encode() in environ.read_bytes().split(b"\0"):
                found.append(int(environ.parent.name))
        except OSError:
            continue
    return found


def testbeds(environment: dict[str, str]) -> list[str]:
    folder = Path(environment["XDG_CACHE_HOME"]) / "mpibed" / "local"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def statuses(folder: Path) -> Counter[str]:
    return Counter(json.loads(path.read_text())["status"] for path in launches_in(folder))


@pytest.fixture
def slow(tmp_path) -> Path:
    path = tmp_path / "slow.yaml"
    path.write_text(SLOW, encoding="utf-8")
    return path


@pytest.fixture
def under_way(started, slow, tmp_path):
    """A run in the middle of a launch, with at least one launch finished: the process and the run's folder."""
    child = started("run", slow, "--backend", "local", "--results", tmp_path / "r")
    until(lambda: len(list((tmp_path / "r").glob("slow/*/raw/*/*.1.json"))) >= 1, "the first finished launch")
    folder = run_folder(tmp_path / "r", "slow")
    until(lambda: len(processes_of(folder.name)) >= 4, "the ranks of the second launch")
    return child, folder


def test_the_quickstart_leaves_everything_a_run_has(mpibed, tmp_path, environment):
    done = mpibed("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", tmp_path / "r")
    assert 0 == done.returncode, done.stderr
    folder = run_folder(tmp_path / "r", "quickstart")
    tables = {"samples", "launches", "environment", "summary", "models", "residuals"}
    expected = {"manifest.yaml", "plan.json", "raw", "figures", "index.html", "datapackage.json"}
    assert expected | {f"{name}.csv" for name in tables} <= {path.name for path in folder.iterdir()}
    assert QUICKSTART.read_bytes() == (folder / "manifest.yaml").read_bytes()
    assert folder == (folder.parent / "latest").resolve()
    assert [] == testbeds(environment)
    assert f"{folder}/index.html" in done.stdout


def test_the_tables_have_a_row_for_every_repetition_that_was_asked_for(mpibed, tmp_path):
    assert 0 == mpibed("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", tmp_path).returncode
    folder = run_folder(tmp_path, "quickstart")
    asked = manifest.load(QUICKSTART, "smoke").manifest
    sizes = {use.benchmark: use.sweep.matrix["message_bytes"].expand() for use in asked.benchmarks}
    samples = table(folder, "samples")
    count = Counter((row["benchmark"], row["phase"]) for row in samples)
    for benchmark, values in sizes.items():
        assert count[benchmark, "measure"] == len(values) * asked.repetitions * asked.launches
        assert count[benchmark, "warmup"] == len(values) * asked.warmup * asked.launches
    assert {"p2p.latency": {"0", "1", "1024", "65536"}}["p2p.latency"] == {
        row["message_bytes"] for row in samples if row["benchmark"] == "p2p.latency"
    }
    units = {row["metric"]: (row["unit"], row["better"]) for row in samples}
    assert ("s", "lower") == units["one_way_latency"]
    assert ("B/s", "higher") == units["bandwidth"] == units["bidirectional_bandwidth"]
    assert ("1/s", "higher") == units["message_rate"]
    assert all(float(row["value"]) > 0 for row in samples)
    assert {"ok"} == {row["status"] for row in table(folder, "launches")}
    assert len(asked.benchmarks) * asked.launches == len(table(folder, "launches"))
    assert sum(map(len, sizes.values())) == len(table(folder, "summary"))
    facts = {row["fact"]: row["value"] for row in table(folder, "environment")}
    assert {"local", str(os.cpu_count())} <= {facts["backend"], facts["cores"]} or facts["cores"]
    assert "MPICH" in facts["mpi_library"]


def test_report_rebuilds_the_same_bytes_from_the_raw_records(mpibed, tmp_path):
    assert 0 == mpibed("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", tmp_path).returncode
    folder = run_folder(tmp_path, "quickstart")
    derived = [*folder.glob("*.csv"), folder / "index.html", *folder.glob("figures/*.svg"), folder / "datapackage.json"]
    before = {path: path.read_bytes() for path in derived}
    for path in [*derived, *folder.glob("figures/*")]:
        path.unlink(missing_ok=True)
    done = mpibed("report", folder.name, "--results", tmp_path)
    assert 0 == done.returncode, done.stderr
    assert before == {path: path.read_bytes() for path in derived}


def test_a_run_that_is_moved_elsewhere_still_makes_its_report(mpibed, tmp_path):
    assert 0 == mpibed("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", tmp_path).returncode
    moved = tmp_path / "elsewhere"
    shutil.move(run_folder(tmp_path, "quickstart"), moved)
    samples = (moved / "samples.csv").read_bytes()
    (moved / "samples.csv").unlink()
    assert 0 == mpibed("report", moved).returncode
    assert samples == (moved / "samples.csv").read_bytes()


def test_events_as_json_tell_the_whole_run(mpibed, tmp_path):
    done = mpibed("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", tmp_path, "--json")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = Counter(event["event"] for event in told)
    assert (1, 4, 4, 1) == tuple(kinds[name] for name in ("RunStarted", "LaunchStarted", "LaunchEnded", "RunEnded"))
    assert ("RunEnded", 4, 0) == (told[-1]["event"], told[-1]["ok"], told[-1]["failed"])
    assert Path(told[-1]["page"]).is_file()


def test_a_finished_run_is_followed_by_a_new_one(mpibed, tmp_path):
    for _ in range(2):
        assert 0 == mpibed("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", tmp_path).returncode
    assert 2 == len([path for path in (tmp_path / "quickstart").iterdir() if not path.is_symlink()])


def test_only_runs_what_it_matches_and_a_later_run_does_the_rest(mpibed, tmp_path):
    words = ("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", tmp_path)
    assert 0 == mpibed(*words, "--only", "label == 'latency'").returncode
    folder = run_folder(tmp_path, "quickstart")
    assert {"latency": "ok"} == {r["label"]: r["status"] for r in table(folder, "launches") if r["status"] != "skipped"}
    assert 3 == Counter(row["status"] for row in table(folder, "launches"))["skipped"]
    assert 0 == mpibed(*words).returncode
    assert {"ok": 4} == Counter(row["status"] for row in table(run_folder(tmp_path, "quickstart"), "launches"))
    positions = [int(row["position"]) for row in table(folder, "launches")]
    assert [0, 1, 2, 3] == sorted(positions)


def test_a_run_of_nothing_is_no_success_and_leaves_nothing(mpibed, tmp_path):
    done = mpibed("run", QUICKSTART, "--backend", "local", "--results", tmp_path / "r", "--only", "pairs > 1")
    assert 2 == done.returncode
    assert "matches none of the 4 cells" in done.stderr
    assert not (tmp_path / "r").exists()


def test_a_killed_run_goes_on_where_it_was(mpibed, under_way, slow, tmp_path, environment):
    child, folder = under_way
    child.kill()
    child.wait()
    kept = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in launches_in(folder)}
    assert 1 <= len(kept) < 6
    assert [folder.name] == testbeds(environment)

    done = mpibed("gc")
    assert 0 == done.returncode, done.stderr
    assert "removed folder" in done.stdout
    assert ([], []) == (processes_of(folder.name), testbeds(environment))

    done = mpibed("run", slow, "--backend", "local", "--results", tmp_path / "r")
    assert 0 == done.returncode, done.stderr
    assert f"going on with run {folder.name}" in done.stdout
    assert folder == run_folder(tmp_path / "r", "slow")
    assert kept == {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in kept}
    assert {"ok": 6} == statuses(folder)
    assert {"1", "2"} == {row["session"] for row in table(folder, "launches")}


def test_a_killed_run_goes_on_even_if_nobody_collected_its_garbage(mpibed, under_way, slow, tmp_path, environment):
    child, folder = under_way
    child.kill()
    child.wait()
    done = mpibed("run", slow, "--backend", "local", "--results", tmp_path / "r")
    assert 0 == done.returncode, done.stderr
    assert {"ok": 6} == statuses(folder)
    assert ([], []) == (processes_of(folder.name), testbeds(environment))


@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT] * 3], ids=["int", "term", "3int"])
def test_an_interrupt_takes_everything_down_and_keeps_what_is_finished(signals, mpibed, under_way, slow, tmp_path, environment):
    child, folder = under_way
    finished = launches_in(folder)
    for number in signals:
        child.send_signal(number)
    _, stderr = child.communicate(timeout=DEADLINE_S)
    assert 130 == child.returncode, stderr
    assert "interrupted; everything was taken down, finished launches are kept: run again to go on\n" == stderr
    assert ([], []) == (processes_of(folder.name), testbeds(environment))
    assert set(finished) <= set(launches_in(folder))
    assert {"ok"} == set(statuses(folder))
    assert [] == list(folder.rglob("*.part"))
    assert 0 == mpibed("run", slow, "--backend", "local", "--results", tmp_path / "r").returncode
    assert {"ok": 6} == statuses(folder)


def test_a_run_that_is_under_way_cannot_be_resumed_by_another(mpibed, under_way, slow, tmp_path):
    _, folder = under_way
    done = mpibed("run", slow, "--backend", "local", "--results", tmp_path / "r", "--resume")
    assert 2 == done.returncode
    assert f"mpibed: another mpibed is writing {folder}; wait for it, or start a run of your own with --fresh\n" == done.stderr


def test_resuming_needs_a_run_of_the_same_cells(mpibed, tmp_path):
    words = ("run", QUICKSTART, "--backend", "local", "--results", tmp_path)
    done = mpibed(*words, "--scale", "smoke", "--resume")
    assert (2, True) == (done.returncode, "there is no run under" in done.stderr)
    assert 0 == mpibed(*words, "--scale", "smoke").returncode
    done = mpibed(*words, "--resume")
    assert (2, True) == (done.returncode, "was of other cells" in done.stderr)


@pytest.mark.parametrize("mode", [["--fresh"], []])
def test_two_runs_at_the_same_time_do_not_meet(mode, started, tmp_path, environment):
    words = ("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", tmp_path / "r", *mode)
    children = [started(*words) for _ in range(2)]
    for child in children:
        _, stderr = child.communicate(timeout=DEADLINE_S)
        assert 0 == child.returncode, stderr
    folders = [path for path in (tmp_path / "r" / "quickstart").iterdir() if not path.is_symlink()]
    assert 2 == len(folders)
    assert [{"ok": 4}] * 2 == [statuses(folder) for folder in folders]
    assert [] == testbeds(environment)


def test_results_that_cannot_be_written_are_told_before_anything_runs(mpibed, tmp_path, environment):
    (tmp_path / "r").write_text("in the way", encoding="utf-8")
    done = mpibed("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", tmp_path / "r")
    assert (1, True) == (done.returncode, "cannot be written" in done.stderr)
    assert 1 == done.stderr.count("\n")
    assert [] == testbeds(environment)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_results_folder_without_write_permission_is_told(mpibed, tmp_path):
    (tmp_path / "r").mkdir(mode=0o500)
    done = mpibed("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", tmp_path / "r")
    assert (1, True) == (done.returncode, "cannot be written (Permission denied)" in done.stderr)


def test_a_seed_that_was_asked_for_is_kept_and_gives_the_same_order(mpibed, tmp_path):
    orders = []
    for name in ("a", "b"):
        words = ("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", tmp_path / name)
        assert 0 == mpibed(*words, "--seed", 5).returncode
        rows = table(run_folder(tmp_path / name, "quickstart"), "launches")
        orders.append([row["label"] for row in sorted(rows, key=lambda row: int(row["position"]))])
        assert {"5"} == {row["seed"] for row in rows}
    assert orders[0] == orders[1]
