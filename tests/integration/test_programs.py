"""The node programs keep their promises: what they print, what they refuse, and that a wrong byte is never timed."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator import project
from orchestrator.families import BENCHMARKS, Benchmark

pytestmark = pytest.mark.local

P2P = [benchmark for benchmark in BENCHMARKS.values() if benchmark.family == "p2p"]
DEPTH = {benchmark.name: "exchanges" if benchmark.parameter("exchanges") else "window" for benchmark in P2P}
NATIVE = project.ROOT / "tests" / "native"
MPI_BIN = project.MPI_PREFIX / "bin"
DEADLINE_S = 120

# Linux may forbid the ranks of a container to read each other's memory; the programs must work without.
ENVIRONMENT = {**os.environ, "PATH": f"{MPI_BIN}{os.pathsep}{os.environ['PATH']}", "MPIR_CVAR_CH4_CMA_ENABLE": "0"}
# MPICH's own shared memory spins without yielding, which is slow with more ranks than cores; libfabric's yields.
YIELDING = {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "shm"}

each_benchmark = pytest.mark.parametrize("benchmark", P2P, ids=lambda benchmark: benchmark.name)


@dataclass(frozen=True)
class Outcome:
    """What one launch left."""

    exit_code: int
    records: list[dict[str, Any]]
    stderr: str

    @property
    def observations(self) -> list[dict[str, Any]]:
        return [record for record in self.records if "metric" in record]

    @property
    def closing(self) -> dict[str, Any]:
        """The one closing line, after checking that it is one and last, and that the program came first."""
        assert self.records, self.stderr
        assert ["program" in record for record in self.records] == [True] + [False] * (len(self.records) - 1)
        assert ["status" in record for record in self.records] == [False] * (len(self.records) - 1) + [True]
        return self.records[-1]

    @property
    def refusal(self) -> str:
        """The error of a launch that must have failed without observing anything."""
        assert self.exit_code != 0
        assert self.closing["status"] == "failed"
        assert self.observations == []
        return str(self.closing["error"])


def checked(*words: str | Path) -> str:
    done = subprocess.run(
        words,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def launch(
    words: Sequence[str | Path], environment: dict[str, str] | None = None, before: Callable[[], None] | None = None
) -> Outcome:
    """`mpiexec` with these words. Each line of standard output must be JSON as the standard has it (no NaN)."""
    done = subprocess.run(
        [MPI_BIN / "mpiexec", *words],
        env=ENVIRONMENT | (environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE_S,
        preexec_fn=before,
        check=False,
    )

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    records = [json.loads(line, parse_constant=refuse) for line in done.stdout.decode().splitlines()]
    return Outcome(done.returncode, records, done.stderr.decode(errors="replace"))


@pytest.fixture(scope="module")
def common(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that exists to exercise the common library."""
    program = tmp_path_factory.mktemp("common") / "common"
    checked(
        MPI_BIN / "mpicc", "-std=c11", f"-I{project.NODE_SOURCES}", NATIVE / "common.c",
        programs.parent / "libcommon.a", "-o", program,
    )  # fmt: skip
    return program


@pytest.fixture(scope="module")
def corrupt_payload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("native") / "corrupt_payload.so"
    checked(MPI_BIN / "mpicc", "-std=c11", "-shared", "-fPIC", NATIVE / "corrupt_payload.c", "-o", library)
    return library


def smoke(
    folder: Path, benchmark: Benchmark, pairs: int = 1, sizes: tuple[int, ...] = (1, 4096), **environment: str
) -> Outcome:
    """A short run: one size after the other, each two operations a repetition, one warm-up and three measured."""
    words = benchmark.arguments({"message_bytes": sizes, "pairs": pairs, DEPTH[benchmark.name]: 2})
    return launch(
        ["-n", str(2 * pairs), folder / benchmark.program, *words, "--warmup", "1", "--repetitions", "3"],
        environment if pairs == 1 else environment | YIELDING,
    )


@each_benchmark
@pytest.mark.parametrize("pairs", [1, 2])
def test_a_program_observes_what_its_description_declares(programs: Path, benchmark: Benchmark, pairs: int) -> None:
    outcome = smoke(programs, benchmark, pairs)
    assert outcome.closing["status"] == "ok", outcome.closing
    assert outcome.exit_code == 0
    assert outcome.records[0]["program"]["name"] == benchmark.program
    assert outcome.records[0]["program"]["ranks"] == len(outcome.records[0]["program"]["hostnames"]) == 2 * pairs
    assert outcome.records[0]["program"]["clock_resolution_s"] > 0

    ranks = ["all", *range(pairs)] if benchmark.name == "p2p.latency" and pairs > 1 else ["all"]
    expected = [
        (metric.name, metric.unit, size, phase, repetition, rank, 2)
        for size in (1, 4096)
        for phase, repetition in [("warmup", 0), ("measure", 0), ("measure", 1), ("measure", 2)]
        for metric in benchmark.metrics
        for rank in ranks
    ]
    keys = ("metric", "unit", "message_bytes", "phase", "repetition", "rank", "operations")
    assert [tuple(observation[key] for key in keys) for observation in outcome.observations] == expected
    assert all(observation["value"] > 0 for observation in outcome.observations)


@each_benchmark
def test_help_names_the_declared_parameters_with_their_defaults(programs: Path, benchmark: Benchmark) -> None:
    text = " ".join(checked(MPI_BIN / "mpiexec", "-n", "2", programs / benchmark.program, "--help").split())
    for parameter in benchmark.parameters:
        row = rf"--{parameter.name.replace('_', '-')} [^;]*? to {parameter.maximum}; default: {parameter.default}\b"
        assert re.search(row, text), f"{row} in {text}"


@pytest.mark.parametrize("name", ["p2p.latency", "p2p.message_rate"])
def test_empty_messages_can_be_exchanged(programs: Path, name: str) -> None:
    outcome = smoke(programs, BENCHMARKS[name], sizes=(0,))
    assert outcome.closing["status"] == "ok", outcome.closing
    assert len(outcome.observations) == 4


@pytest.mark.parametrize(
    ("program", "sizes", "operations"),
    [
        ("p2p_latency", "41943,1048576,8388608", [100, 4, 1]),
        ("p2p_bandwidth", "4,2097152", [64, 32]),
    ],
)
def test_large_messages_make_repetitions_of_fewer_operations(
    programs: Path, program: str, sizes: str, operations: list[int]
) -> None:
    outcome = launch(["-n", "2", programs / program, "--message-bytes", sizes, "--repetitions", "1"])
    assert outcome.closing["status"] == "ok", outcome.closing
    assert operations == [o["operations"] for o in outcome.observations if o["phase"] == "measure"]


# Of the sizes 16 and 64, each receiving rank gets 2 messages in the warm-up and 6 in the measured repetitions.
@pytest.mark.parametrize(
    ("message", "wrong_bytes", "observed"),
    [(1, 16, []), (8, 16, []), (10, 64, [16])],
    ids=["in the first warm-up", "in the last measured message", "in a later size"],
)
@each_benchmark
def test_a_wrong_byte_fails_the_launch_and_its_size_is_not_observed(
    programs: Path, corrupt_payload: Path, benchmark: Benchmark, message: int, wrong_bytes: int, observed: list[int]
) -> None:
    outcome = smoke(
        programs,
        benchmark,
        sizes=(16, 64),
        LD_PRELOAD=str(corrupt_payload),
        CORRUPT_RANK="1",
        CORRUPT_MESSAGE=str(message),
    )
    assert outcome.exit_code == 1
    assert outcome.closing["status"] == "failed"
    assert outcome.closing["check"] == "payload"
    found = re.fullmatch(
        rf"rank 1: message \d+ of {wrong_bytes} B from rank 0 is first wrong at offset {wrong_bytes - 1}:"
        r" expected 0x(..), found 0x(..)",
        outcome.closing["error"],
    )
    assert found, outcome.closing
    assert int(found[1], 16) ^ int(found[2], 16) == 1
    assert observed == sorted({observation["message_bytes"] for observation in outcome.observations})


@pytest.mark.parametrize("name", ["p2p.latency", "p2p.bidirectional"])
def test_a_wrong_byte_is_noticed_by_the_initiator_too(programs: Path, corrupt_payload: Path, name: str) -> None:
    outcome = smoke(programs, BENCHMARKS[name], LD_PRELOAD=str(corrupt_payload), CORRUPT_RANK="0", CORRUPT_MESSAGE="2")
    assert outcome.refusal.startswith("rank 0: message 1 of 1 B from rank 1")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--windw", "4"], "'--windw' is not an argument; allowed: --repetitions, --warmup, --message-bytes,"),
        (["window", "4"], "'window' is not an argument"),
        (["--", "4"], "'--' is not an argument"),
        (["--window"], "--window has no value; allowed: a whole number from 1 to 65536"),
        (["--window", ""], "--window: '' is not a whole number"),
        (["--window", "four"], "--window: 'four' is not a whole number; allowed: a whole number from 1 to 65536"),
        (["--window", "4x"], "--window: '4x' is not a whole number"),
        (["--window", "4.5"], "--window: '4.5' is not a whole number"),
        (["--window", " 4"], "--window: ' 4' is not a whole number"),
        (["--window", "+4"], "--window: '+4' is not a whole number"),
        (["--window", "0"], "--window: '0' is out of range; allowed: a whole number from 1 to 65536"),
        (["--window", "-1"], "--window: '-1' is out of range"),
        (["--window", "65537"], "--window: '65537' is out of range"),
        (["--window", "99999999999999999999"], "--window: '99999999999999999999' is out of range"),
        (["--window", "4", "--window", "4"], "--window is given twice"),
        (["--repetitions", "0"], "--repetitions: '0' is out of range"),
        (["--warmup", "0"], "--warmup: '0' is out of range"),
        (
            ["--message-bytes", "0"],
            "--message-bytes: '0' is out of range; allowed: comma-separated whole numbers from 1",
        ),
        (["--message-bytes", "1,,2"], "--message-bytes: '' is not a whole number"),
        (["--message-bytes", "1,2,"], "--message-bytes: '' is not a whole number"),
        (["--message-bytes", "8,1073741825"], "--message-bytes: '1073741825' is out of range"),
        (["--message-bytes", "1" * 40], "is out of range"),
        (["--message-bytes", ",".join(["1"] * 257)], "--message-bytes has more than 256 values; split the list"),
        (['--wi"n\\d\n', "4"], "'--wi\"n\\d\n' is not an argument"),
        (["--größe", "4"], "'--größe' is not an argument"),
        (["--\udcff", "4"], "'--\ufffd' is not an argument"),
    ],
    ids=lambda value: " ".join(value).encode("unicode_escape").decode()[:32] if isinstance(value, list) else "",
)
def test_a_wrong_command_line_is_refused_with_what_is_allowed(programs: Path, words: list[str], error: str) -> None:
    outcome = launch(["-n", "2", programs / "p2p_bandwidth", *words])
    assert error in outcome.refusal
    assert outcome.closing["check"] == "arguments"


def test_ranks_with_different_arguments_are_refused(programs: Path) -> None:
    rank = ["-n", "1", str(programs / "p2p_latency"), "--exchanges"]
    assert "rank 1 was given other arguments than rank 0" in launch([*rank, "1", ":", *rank, "2"]).refusal


@each_benchmark
@pytest.mark.parametrize(("ranks", "pairs"), [(1, 1), (3, 1), (2, 2)])
def test_a_wrong_number_of_ranks_is_refused(programs: Path, benchmark: Benchmark, ranks: int, pairs: int) -> None:
    outcome = launch(["-n", str(ranks), programs / benchmark.program, "--pairs", str(pairs)], YIELDING)
    assert f"{2 * pairs} ranks, but there are {ranks}" in outcome.refusal
    assert outcome.closing["check"] == "ranks"


def test_messages_that_do_not_fit_into_memory_are_refused(programs: Path) -> None:
    def little_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    outcome = launch(["-n", "2", programs / "p2p_latency", "--message-bytes", "1,1073741824"], before=little_memory)
    assert "no memory for 1073741824 B of messages" in outcome.refusal
    assert outcome.closing["check"] == "memory"


@pytest.mark.parametrize(("value", "divisor"), [("1", "3"), ("1e-300", "1e10"), ("-0.1", "1"), ("5e-324", "1")])
def test_a_number_is_written_exactly(common: Path, value: str, divisor: str) -> None:
    outcome = launch(["-n", "2", common, "--value", value, "--divisor", divisor])
    assert outcome.closing["status"] == "ok", outcome.closing
    assert [float(value) / float(divisor)] == [observation["value"] for observation in outcome.observations]


def test_a_value_that_is_no_number_fails_the_launch(common: Path) -> None:
    outcome = launch(["-n", "2", common, "--value", "1", "--divisor", "0"])
    assert outcome.refusal == "ratio of repetition 0 is inf, not a finite number"
    assert outcome.closing["check"] == "values"


@pytest.mark.parametrize("value", ["nan", "inf", "1e999", "1.5m", "", "0x10", " 1", "-"])
def test_what_is_no_finite_number_is_refused(common: Path, value: str) -> None:
    assert f"--value: '{value}' is " in launch(["-n", "2", common, "--value", value]).refusal


def test_a_text_is_written_as_it_was_given(common: Path) -> None:
    metric = 'quote " backslash \\ tab \t λ 𝛼'
    outcome = launch(["-n", "2", common, "--metric", metric])
    assert [metric] == [observation["metric"] for observation in outcome.observations]


# Leaks are not looked for: what MPI itself keeps until the process ends would be reported as ours.
SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}


@each_benchmark
@pytest.mark.parametrize("pairs", [1, 2])
def test_sanitizers_find_nothing(sanitized: Path, benchmark: Benchmark, pairs: int) -> None:
    outcome = smoke(sanitized, benchmark, pairs, sizes=(1, 7, 100_000), **SANITIZERS)
    assert outcome.closing["status"] == "ok", outcome.stderr
    assert "Sanitizer" not in outcome.stderr
    assert "runtime error" not in outcome.stderr


@pytest.mark.parametrize("words", [["--windw", "4"], ["--message-bytes", "1,,2"], ["--pairs", "2"], ["--\udcc3", ""]])
def test_sanitizers_find_nothing_in_a_refusal(sanitized: Path, words: list[str]) -> None:
    outcome = launch(["-n", "2", sanitized / "p2p_bandwidth", *words], SANITIZERS)
    assert outcome.refusal
    assert "Sanitizer" not in outcome.stderr
    assert "runtime error" not in outcome.stderr
