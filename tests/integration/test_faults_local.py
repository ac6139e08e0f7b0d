"""Programs that go wrong, on the local backend: told with a fitting reason, kept in the record, nothing left running.

The programs are scripts put where the node programs are looked for; mpiexec starts them as it would the real ones.
"""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator import experiment, manifest, project, runner, tables
from orchestrator.backends.local import LocalBackend
from orchestrator.errors import MissingPiece
from orchestrator.runner import Options
from tests.conftest import processes_of

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("local")]

# Two benchmarks: the first misbehaves, the second is as it should be and must be run all the same.
MANIFEST = """\
schema: 1
name: faults
benchmarks:
  - benchmark: p2p.latency
    sweep: {matrix: {message_bytes: [1]}}
  - benchmark: p2p.bandwidth
    sweep: {matrix: {message_bytes: [1]}}
launches: 1
repetitions: 2
warmup: 1
timeout: 20s
seed: 1
"""
# What a good program says; rank 0 alone speaks, as the real ones do.
HONEST = """\
import json, os, sys, time
if os.environ.get("PMI_RANK", "0") != "0": sys.exit(0)
def say(**document): print(json.dumps(document), flush=True)
def observe(**other):
    say(**({"metric": METRIC, "value": 1e-6, "unit": UNIT, "phase": "measure", "repetition": 0, "rank": "all",
            "operations": 1, "message_bytes": 1} | other))
def good():
    for repetition in range(2): observe(repetition=repetition)
def close(**other): say(**({"status": "ok", "check": "none"} | other))
say(program={"name": "script"})
"""
UNITS = {"p2p_latency": ("one_way_latency", "s"), "p2p_bandwidth": ("bandwidth", "B/s")}


@pytest.fixture
def programs(tmp_path, monkeypatch) -> Callable[[str, str], None]:
    """Puts a script in the place of a node program; those not put are missing."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setattr(project, "PROGRAMS", folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def put(name: str, body: str) -> None:
        metric, unit = UNITS[name]
        path = folder / name
        path.write_text(f"#!{sys.executable} -I\nMETRIC, UNIT = {metric!r}, {unit!r}\n{HONEST}{body}", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    put("p2p_bandwidth", "good(); close()\n")
    return put


@pytest.fixture
def run(tmp_path):
    """Runs the manifest: the result and the record of each benchmark. Nothing may be left, whatever happened."""

    def call(text: str = MANIFEST, results: Path = tmp_path / "r"):
        path = tmp_path / "m.yaml"
        path.write_text(text, encoding="utf-8")
        resolved = experiment.resolve(manifest.load(path))
        result = runner.run(resolved, LocalBackend(), Options(results), lambda event: None)
        assert processes_of(result.folder.run) == []
        assert LocalBackend().find() == []
        return result, {record["cell"]["label"]: record for record in result.folder.launches()}

    return call


FAULTS = {
    "ends with an exit code": (
        "print('no such luck', file=sys.stderr); sys.exit(3)",
        "a rank on localhost ended with exit code 3",
    ),
    "ends with an exit code after good results": (
        "good(); close(); sys.exit(3)",
        "a rank on localhost ended with exit code 3",
    ),
    "is killed": ("os.kill(os.getpid(), 9)", "a rank on localhost was killed by signal 9 (SIGKILL)"),
    "crashes": (
        "import signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "a rank on localhost was killed by signal 11 (SIGSEGV)",
    ),
    "dies by a signal without a name": ("os.kill(os.getpid(), 40)", "a rank on localhost was killed by signal 40"),
    "says it failed": ("close(status='failed', error='byte 7 differs'); sys.exit(1)", "byte 7 differs"),
    "says it failed and ends with 0": ("good(); close(status='failed', error='byte 7 differs')", "byte 7 differs"),
    "stops without a word": ("good()", "the program closed 0 times, not once"),
    "closes twice": ("good(); close(); close()", "the program closed 2 times, not once"),
    "says nothing at all": ("close()", "0 of 2 repetitions of one_way_latency at message_bytes=1 are there"),
    "leaves one out": ("observe(); close()", "1 of 2 repetitions of one_way_latency at message_bytes=1 are there"),
    "gives one too many": ("good(); observe(repetition=2); close()", "2 of 2 repetitions of one_way_latency"),
    "measures in another unit": (
        "observe(unit='us'); close()",
        "observation 1 has unit 'us', one_way_latency is in 's'",
    ),
    "measures something else": (
        "observe(metric='joy'); close()",
        "observation 1 is of 'joy', which p2p.latency does not",
    ),
    "gives no number": (
        "observe(value=float('nan')); close()",
        "observation 1 has the value 'NaN', which is no number",
    ),
    "answers another question": (
        "good(); observe(message_bytes=2); close()",
        "observation 3 has message_bytes=2, which",
    ),
    "writes garbage": ("print('{\"metric\": '); print('{]' * 5)", "the program closed 0 times, not once"),
    "writes no text": ("sys.stdout.buffer.write(bytes(range(256)) * 40)", "the program closed 0 times, not once"),
    "has no interpreter": (None, "the program {programs}/p2p_latency cannot be started"),
}


@pytest.mark.parametrize(("body", "reason"), FAULTS.values(), ids=[name.replace(" ", "-") for name in FAULTS])
def test_a_program_that_goes_wrong_is_failed_with_the_reason_and_the_run_goes_on(body, reason, programs, run, tmp_path):
    programs("p2p_latency", body or "")
    if body is None:
        (project.PROGRAMS / "p2p_latency").write_text("#!/nonexistent/interpreter\n", encoding="utf-8")
    result, records = run()
    assert (result.ok, result.failed, result.lost) == (1, 1, "")
    failed = records["latency"]
    expected = reason.format(programs=project.PROGRAMS)
    assert ("failed", expected) == (failed["status"], failed["reason"][: len(expected)])
    assert (records["bandwidth"]["status"], records["bandwidth"]["reason"]) == ("ok", "")
    tables.collect(result.folder)
    samples = tables.read_run(result.folder, "samples")
    assert {"p2p.bandwidth"} == set(samples["benchmark"])


def test_a_missing_program_is_failed_with_its_name(programs, run):
    result, records = run()
    assert (result.ok, result.failed) == (1, 1)
    assert f"the program {project.PROGRAMS}/p2p_latency cannot be started" == records["latency"]["reason"]


def test_a_program_that_hangs_is_ended_when_its_time_is_up(programs, run):
    programs("p2p_latency", "print('still here', file=sys.stderr, flush=True); time.sleep(10_000)\n")
    result, records = run(MANIFEST.replace("timeout: 20s", "timeout: 3s"))
    assert (result.ok, result.failed) == (1, 1)
    assert records["latency"]["reason"] == "timed out after 3 s"
    assert records["latency"]["exit_code"] is None
    assert "still here" in "\n".join(records["latency"]["stderr"])


def test_a_program_that_ignores_signals_and_forks_away_is_ended_all_the_same(programs, run):
    escape = (
        "import signal; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]\n"
        "if os.fork() == 0:\n    os.setsid(); os.fork(); time.sleep(10_000)\ntime.sleep(10_000)\n"
    )
    programs("p2p_latency", escape)
    _, records = run(MANIFEST.replace("timeout: 20s", "timeout: 3s"))
    assert records["latency"]["reason"] == "timed out after 3 s"


def test_the_last_words_of_a_program_are_in_the_record(programs, run):
    programs("p2p_latency", "print('on stdout', flush=True); print('on stderr', file=sys.stderr); sys.exit(1)\n")
    record = run()[1]["latency"]
    assert "on stdout" in record["stdout"]
    assert "on stderr" in "\n".join(record["stderr"])


@pytest.mark.parametrize(
    "body", ["for n in range(100_000): print('x' * 50, n)", "print('x' * 5_000_000)"], ids=["lines", "line"]
)
def test_a_program_that_writes_megabytes_leaves_a_record_of_kilobytes(body, programs, run):
    programs("p2p_latency", f"{body}\nsys.stdout.flush(); sys.exit(1)\n")
    result, records = run()
    assert records["latency"]["reason"] == "a rank on localhost ended with exit code 1"
    (path,) = result.folder.path.glob(f"raw/{records['latency']['cell']['id']}/*.json")
    assert path.stat().st_size < 1 << 20


def test_a_failed_launch_is_tried_again_by_the_next_run_and_both_attempts_are_kept(programs, run):
    programs("p2p_latency", "if not os.path.exists('/proc/self/nothing'): sys.exit(3)\n")
    first, _ = run()
    identity = LocalBackend().build(lambda _: None).identity
    second, _ = run()
    assert identity == LocalBackend().build(lambda _: None).identity
    assert first.folder.run == second.folder.run
    attempts = sorted((r["cell"]["label"], r["attempt"], r["status"]) for r in second.folder.launches())
    assert attempts == [("bandwidth", 1, "ok"), ("latency", 1, "failed"), ("latency", 2, "failed")]
    assert (second.ok, second.failed) == (1, 1)


def test_another_program_of_the_same_name_starts_another_run(programs, run):
    programs("p2p_latency", "sys.exit(3)\n")
    first, _ = run()
    programs("p2p_latency", "good(); close()\n")
    second, records = run()
    assert first.folder.run != second.folder.run
    assert (second.ok, second.failed) == (2, 0)
    assert {"ok"} == {record["status"] for record in records.values()}


def test_without_programs_the_remedy_is_told_before_anything_is_created(programs, run, tmp_path):
    (project.PROGRAMS / "p2p_bandwidth").unlink()
    with pytest.raises(MissingPiece, match=r"no node programs .* run `make build`"):
        run()
    assert not (tmp_path / "r").exists()


# The limit of a process on the size of a file stands for the end of the disk: it needs no rights.
ON_A_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from orchestrator import experiment, manifest, project, runner
from orchestrator.backends.local import LocalBackend
from orchestrator.errors import MpibedError

project.PROGRAMS, results, path = map(Path, sys.argv[1:])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
try:
    runner.run(experiment.resolve(manifest.load(path)), LocalBackend(), runner.Options(results), lambda event: None)
except MpibedError as error:
    print(error)
"""


def test_a_disk_that_fills_ends_the_run_in_words_and_keeps_what_was_finished(programs, tmp_path):
    programs("p2p_latency", "for n in range(400): print('x' * 90, flush=True)\ngood(); close()\n")
    (tmp_path / "m.yaml").write_text(MANIFEST, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ON_A_FULL_DISK, project.PROGRAMS, tmp_path / "r", tmp_path / "m.yaml"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("no space left to write")
    assert done.stdout.endswith("free some, then run again: finished launches are kept\n")
    folder = (tmp_path / "r" / "faults" / "latest").resolve()
    assert all(json.loads(one.read_text())["status"] == "ok" for one in folder.glob("raw/*/*.1.json"))
    assert list(folder.rglob("*.part")) == []
    assert processes_of(folder.name) == []
    assert LocalBackend().find() == []


def test_removing_what_is_not_there_is_no_error():
    assert LocalBackend().remove("20990101-000000-dead") == []
