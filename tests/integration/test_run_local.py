"""Runs on the local backend, from the command line as a user would: files, tables, resuming, interrupts, rivals."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator import manifest
from tests.conftest import MPIBED, QUICKSTART, processes_of

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("local")]

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

    def as_in_a_terminal() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def start(*words: object) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [MPIBED, *map(str, words)], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, preexec_fn=as_in_a_terminal,
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


def beds(environment: dict[str, str]) -> list[str]:
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


@pytest.fixture(scope="module")
def quickstart(local, tmp_path_factory) -> tuple[Path, str]:
    """A finished run of the quickstart at smoke scale, not to be changed: its folder, and what was printed."""
    results = tmp_path_factory.mktemp("quickstart")
    done = subprocess.run(
        [MPIBED, "run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", results],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return run_folder(results, "quickstart"), done.stdout


def test_the_quickstart_leaves_everything_a_run_has(quickstart):
    folder, printed = quickstart
    tables = {"samples", "launches", "environment", "summary", "models", "residuals"}
    expected = {"manifest.yaml", "plan.json", "raw", "figures", "index.html", "datapackage.json"}
    assert expected | {f"{name}.csv" for name in tables} <= {path.name for path in folder.iterdir()}
    assert QUICKSTART.read_bytes() == (folder / "manifest.yaml").read_bytes()
    assert folder == (folder.parent / "latest").resolve()
    assert processes_of(folder.name) == []
    assert f"{folder}/index.html" in printed


def test_the_tables_have_a_row_for_every_repetition_that_was_asked_for(quickstart):
    folder, _ = quickstart
    asked = manifest.load(QUICKSTART, "smoke").manifest
    samples = table(folder, "samples")
    count = Counter((row["benchmark"], row["phase"]) for row in samples)
    sizes = {use.benchmark: len(use.sweep.matrix["message_bytes"].expand()) for use in asked.benchmarks}
    for benchmark, values in sizes.items():
        assert values * asked.repetitions * asked.launches == count[benchmark, "measure"]
        assert values * asked.warmup * asked.launches == count[benchmark, "warmup"]
    of_latency = [row for row in samples if row["benchmark"] == "p2p.latency"]
    assert {"0", "1", "1024", "65536"} == {row["message_bytes"] for row in of_latency}
    assert {("5", "", "1")} == {(row["exchanges"], row["window"], row["pairs"]) for row in of_latency}
    assert len(asked.benchmarks) * asked.launches == len(table(folder, "launches"))
    assert sum(sizes.values()) == len(table(folder, "summary"))


def test_values_carry_their_unit_and_direction(quickstart):
    samples = table(quickstart[0], "samples")
    assert {
        ("one_way_latency", "s", "lower"), ("bandwidth", "B/s", "higher"), ("bidirectional_bandwidth", "B/s", "higher"),
        ("message_rate", "1/s", "higher"),
    } == {(row["metric"], row["unit"], row["better"]) for row in samples}  # fmt: skip
    assert all(float(row["value"]) > 0 for row in samples)


def test_launches_and_environment_tell_how_it_was_run(quickstart):
    folder, _ = quickstart
    launches = table(folder, "launches")
    assert {("ok", "0", "1")} == {(row["status"], row["exit_code"], row["attempt"]) for row in launches}
    assert all(row["clock"] and row["check"] for row in launches)
    facts = {row["fact"]: row["value"] for row in table(folder, "environment")}
    assert (facts["backend"], "MPICH" in facts["mpi_library"]) == ("local", True)
    assert {"kernel", "cores", "memory_bytes", "build", "command"} <= facts.keys()


def test_report_rebuilds_the_same_bytes_from_a_run_that_was_moved_elsewhere(quickstart, mpibed, tmp_path):
    folder = Path(shutil.copytree(quickstart[0], tmp_path / "elsewhere" / quickstart[0].name))
    derived = [*folder.glob("*.csv"), *folder.glob("figures/*.svg"), folder / "datapackage.json"]
    before = {path: path.read_bytes() for path in derived}
    for path in [*derived, folder / "index.html"]:
        path.unlink()
    done = mpibed("report", folder)
    assert done.returncode == 0, done.stderr
    assert before == {path: path.read_bytes() for path in derived}
    assert (folder / "index.html").is_file()


def test_a_report_that_cannot_be_written_is_told(quickstart, mpibed, tmp_path):
    folder = Path(shutil.copytree(quickstart[0], tmp_path / "copy"))
    (folder / "samples.csv").unlink()
    (folder / "samples.csv").mkdir()
    done = mpibed("report", folder)
    assert (done.returncode, "cannot be written (Is a directory)" in done.stderr) == (1, True)


def test_events_as_json_tell_the_whole_run(mpibed, tmp_path):
    done = mpibed("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", tmp_path, "--json")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = Counter(event["event"] for event in told)
    assert tuple(kinds[name] for name in ("RunStarted", "LaunchStarted", "LaunchEnded", "RunEnded")) == (1, 4, 4, 1)
    assert (told[-1]["event"], told[-1]["ok"], told[-1]["failed"]) == ("RunEnded", 4, 0)
    assert Path(told[-1]["page"]).is_file()


def test_a_finished_run_is_followed_by_a_new_one(quickstart, mpibed, tmp_path):
    shutil.copytree(quickstart[0].parent, tmp_path / "quickstart", symlinks=True)
    assert mpibed("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", tmp_path).returncode == 0
    assert len([path for path in (tmp_path / "quickstart").iterdir() if not path.is_symlink()]) == 2


def test_only_runs_what_it_matches_and_a_later_run_does_the_rest(mpibed, tmp_path):
    words = ("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", tmp_path)
    assert mpibed(*words, "--only", "label == 'latency'").returncode == 0
    folder = run_folder(tmp_path, "quickstart")
    assert {r["label"]: r["status"] for r in table(folder, "launches") if r["status"] != "skipped"} == {"latency": "ok"}
    assert Counter(row["status"] for row in table(folder, "launches"))["skipped"] == 3
    assert mpibed(*words).returncode == 0
    assert Counter(row["status"] for row in table(run_folder(tmp_path, "quickstart"), "launches")) == {"ok": 4}
    positions = [int(row["position"]) for row in table(folder, "launches")]
    assert sorted(positions) == [0, 1, 2, 3]


def test_a_run_of_nothing_is_no_success_and_leaves_nothing(mpibed, tmp_path):
    done = mpibed("run", QUICKSTART, "--backend", "local", "--results", tmp_path / "r", "--only", "pairs > 1")
    assert done.returncode == 2
    assert "matches none of the 4 cells" in done.stderr
    assert not (tmp_path / "r").exists()


def test_a_killed_run_goes_on_where_it_was(mpibed, under_way, slow, tmp_path, environment):
    child, folder = under_way
    left = processes_of(folder.name)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)  # so that they cannot come to an end by themselves
    child.kill()
    child.wait()
    kept = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in launches_in(folder)}
    assert 1 <= len(kept) < 6
    assert [folder.name] == beds(environment)

    done = mpibed("gc")
    assert done.returncode == 0, done.stderr
    removed = done.stdout.splitlines()
    assert "removed folder" in removed[-1]
    assert {f"removed process {pid}" for pid in left} & {*removed}
    assert len(removed) == len(set(removed))
    assert (processes_of(folder.name), beds(environment)) == ([], [])

    done = mpibed("run", slow, "--backend", "local", "--results", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    assert f"going on with run {folder.name}" in done.stdout
    assert folder == run_folder(tmp_path / "r", "slow")
    assert kept == {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in kept}
    assert statuses(folder) == {"ok": 6}
    assert {"1", "2"} == {row["session"] for row in table(folder, "launches")}


def test_a_killed_run_goes_on_even_if_nobody_collected_its_garbage(mpibed, under_way, slow, tmp_path, environment):
    child, folder = under_way
    child.kill()
    child.wait()
    done = mpibed("run", slow, "--backend", "local", "--results", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    assert statuses(folder) == {"ok": 6}
    assert (processes_of(folder.name), beds(environment)) == ([], [])


@pytest.mark.parametrize(
    "signals", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT] * 3], ids=["int", "term", "3int"]
)
def test_an_interrupt_takes_everything_down_and_keeps_what_is_finished(signals, under_way, environment):
    child, folder = under_way
    finished = launches_in(folder)
    for number in signals:
        child.send_signal(number)
    _, stderr = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 130, stderr
    assert stderr == "interrupted; everything was taken down, finished launches are kept: run again to go on\n"
    assert (processes_of(folder.name), beds(environment)) == ([], [])
    assert set(finished) <= set(launches_in(folder))
    assert {"ok"} == set(statuses(folder))
    assert list(folder.rglob("*.part")) == []


def test_a_run_that_is_under_way_cannot_be_resumed_by_another(mpibed, under_way, slow, tmp_path):
    _, folder = under_way
    done = mpibed("run", slow, "--backend", "local", "--results", tmp_path / "r", "--resume")
    assert done.returncode == 2
    assert (
        f"mpibed: another mpibed is writing {folder}; wait for it, or start a run of your own with --fresh\n"
        == done.stderr
    )


def test_resuming_needs_a_run_of_the_same_cells(quickstart, mpibed, tmp_path):
    words = ("run", QUICKSTART, "--backend", "local", "--resume", "--results")
    done = mpibed(*words, tmp_path)
    assert (done.returncode, "there is no run under" in done.stderr) == (2, True)
    done = mpibed(*words, quickstart[0].parent.parent)
    assert (done.returncode, "was of other cells" in done.stderr) == (2, True)


@pytest.mark.parametrize("mode", [["--fresh"], []])
def test_two_runs_at_the_same_time_do_not_meet(mode, started, tmp_path, environment):
    words = ("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", tmp_path / "r", *mode)
    children = [started(*words) for _ in range(2)]
    for child in children:
        _, stderr = child.communicate(timeout=DEADLINE_S)
        assert child.returncode == 0, stderr
    folders = [path for path in (tmp_path / "r" / "quickstart").iterdir() if not path.is_symlink()]
    assert len(folders) == 2
    assert [statuses(folder) for folder in folders] == [{"ok": 4}] * 2
    assert beds(environment) == []


def test_results_that_cannot_be_written_are_told_before_anything_runs(mpibed, tmp_path, environment):
    (tmp_path / "r").write_text("in the way", encoding="utf-8")
    done = mpibed("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", tmp_path / "r")
    assert (done.returncode, "cannot be written" in done.stderr) == (1, True)
    assert done.stderr.count("\n") == 1
    assert beds(environment) == []


def test_a_results_folder_without_write_permission_is_told(mpibed):
    """Under /sys nobody, not even root, may make a folder."""
    done = mpibed("run", QUICKSTART, "--backend", "local", "--scale", "smoke", "--results", "/sys/kernel/results")
    assert (done.returncode, "cannot be written" in done.stderr) == (1, True)
    assert "--results" in done.stderr
