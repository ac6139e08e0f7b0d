"""The mpiio programs: every variant multiplies rightly, a wrong byte is never timed, and no file is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator import project
from orchestrator.families.mpiio import BENCHMARKS, VARIANTS

pytestmark = pytest.mark.local

MATMUL, TESTRDWR = BENCHMARKS
MPI_BIN = project.MPI_PREFIX / "bin"
DEADLINE_S = 100
PROGRAMS = [benchmark.program for benchmark in BENCHMARKS]
COMBINATIONS = [(name, access) for name, variant in VARIANTS.items() for access in variant.accesses]
ACCESSES = MATMUL.parameter("access").choices  # type: ignore[union-attr]

ENVIRONMENT = {
    **os.environ,
    "PATH": f"{MPI_BIN}{os.pathsep}{os.environ['PATH']}",
    "MPIR_CVAR_CH4_CMA_ENABLE": "0",
    # libfabric's shared memory yields when there are more ranks than cores.
    "MPIR_CVAR_NOLOCAL": "1",
    "MPIR_CVAR_CH4_NETMOD": "ofi",
    "FI_PROVIDER": "shm",
}

# A file system with faults: FAULT happens at the FAULT_CALL-th read or write of a file without a name, on every rank.
FAULTS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_due(int descriptor, const char *fault)
{
    static int calls = 0;
    struct stat file;
    if (strcmp(getenv("FAULT"), fault) != 0 || fstat(descriptor, &file) != 0 || !S_ISREG(file.st_mode) ||
        file.st_nlink != 0)
        return 0;
    return ++calls == atoi(getenv("FAULT_CALL"));
}

ssize_t pread(int descriptor, void *buffer, size_t bytes, off_t offset)
{
    if (is_due(descriptor, "short read"))
        return 0;
    if (is_due(descriptor, "read error")) {
        errno = EIO;
        return -1;
    }
    const ssize_t count = ((ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread"))(descriptor, buffer,
                                                                                               bytes, offset);
    if (is_due(descriptor, "wrong bit"))
        ((char *)buffer)[count - 2] ^= 0x10;
    return count;
}

ssize_t pwrite(int descriptor, const void *buffer, size_t bytes, off_t offset)
{
    if (is_due(descriptor, "full")) {
        errno = ENOSPC;
        return -1;
    }
    if (is_due(descriptor, "lost write"))
        return (ssize_t)bytes;
    return ((ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite"))(descriptor, buffer, bytes,
                                                                                       offset);
}
"""


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
        """The one closing line, which is the last."""
        assert ["status" in record for record in self.records] == [False] * (len(self.records) - 1) + [True], self
        return self.records[-1]

    @property
    def check(self) -> str:
        """What a launch that went well says it checked."""
        assert (self.closing["status"], self.exit_code) == ("ok", 0), self
        return str(self.closing["check"])

    @property
    def refusal(self) -> str:
        """The error of a launch that must have failed without observing anything."""
        assert self.exit_code != 0
        assert (self.closing["status"], self.observations) == ("failed", [])
        return str(self.closing["error"])


def launch(ranks: int, words: Sequence[str | Path], **environment: str) -> Outcome:
    done = subprocess.run(
        [MPI_BIN / "mpiexec", "-n", str(ranks), *words],
        env=ENVIRONMENT | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return Outcome(done.returncode, records, done.stderr)


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    (folder / "faults.c").write_text(FAULTS, encoding="utf-8")
    subprocess.run(
        [MPI_BIN / "mpicc", "-shared", "-fPIC", "faults.c", "-o", "faults.so", "-ldl"],
        cwd=folder, env=ENVIRONMENT, timeout=DEADLINE_S, check=True,
    )  # fmt: skip
    return folder / "faults.so"


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """The shared directory; whatever the test did, the programs must have left nothing in it."""
    shared = tmp_path / "shared"
    shared.mkdir()
    yield shared
    assert list(shared.iterdir()) == []


def matmul(folder: Path, directory: Path, ranks: int = 4, **parameters: object) -> Outcome:
    """Two steps a loop, so that both epilogues of double buffering can be reached with one more."""
    settings = {"local_block": 8, "replication": 2} | parameters
    words = MATMUL.arguments({name: str(value) for name, value in settings.items() if name.islower()})
    return launch(ranks, [folder / MATMUL.program, *words, "--directory", directory, "--repetitions", "2"])


def testrdwr(folder: Path, directory: Path, ranks: int = 2, **parameters: object) -> Outcome:
    settings = {"file_bytes": 64 * 4096, "request_bytes": 4096} | parameters
    words = TESTRDWR.arguments({name: str(value) for name, value in settings.items()})
    return launch(ranks, [folder / TESTRDWR.program, *words, "--directory", directory, "--repetitions", "2"])


testrdwr.__test__ = False  # type: ignore[attr-defined]

PHASES = [("warmup", 0), ("measure", 0), ("measure", 1)]
KEYS = ("metric", "unit", "phase", "repetition", "rank")


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize(("variant", "access"), COMBINATIONS)
def test_every_variant_multiplies_rightly_and_observes_what_is_declared(
    programs: Path, directory: Path, variant: str, access: str, ranks: int
) -> None:
    outcome = matmul(programs, directory, ranks, variant=variant, access=access)
    order = VARIANTS[variant].order(ranks, 8, 2)
    assert f"after each of 3 repetitions, order {order};" in outcome.check
    expected = [(m.name, m.unit, *phase, "all") for phase in PHASES for m in MATMUL.metrics]
    assert [tuple(o[key] for key in KEYS) for o in outcome.observations] == expected
    assert all(o["value"] > 0 for o in outcome.observations)

    outer = 2 if VARIANTS[variant].square else 2 * ranks  # steps, each with a block or panel and two of the others
    block_bytes = 8 * order * 8
    assert {o["value"] for o in outcome.observations if o["metric"] == "bytes_read"} == {
        ranks * outer * (1 + 2) * block_bytes
    }
    assert {o["value"] for o in outcome.observations if o["metric"] == "bytes_written"} == {8 * order**2}


@pytest.mark.parametrize("replication", [1, 3])
@pytest.mark.parametrize(("variant", "access"), [c for c in COMBINATIONS if "DB" in c[0]])
def test_both_epilogues_of_double_buffering_multiply_rightly(
    programs: Path, directory: Path, variant: str, access: str, replication: int
) -> None:
    assert matmul(programs, directory, variant=variant, access=access, replication=replication).check


@pytest.mark.parametrize("blocks", [0, 1, 8])
@pytest.mark.parametrize("access", ACCESSES)
def test_data_shipping_changes_hints_and_no_result(programs: Path, directory: Path, access: str, blocks: int) -> None:
    variant = "TESTMAT1" if access in VARIANTS["TESTMAT1"].accesses else "TESTMAT2"
    outcome = matmul(programs, directory, variant=variant, access=access, shipping_blocks=blocks, local_block=13)
    assert re.search(rf"ROMIO driver \w+; shipping_blocks={blocks} in force; cache warm$", outcome.check)


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("access", ACCESSES)
def test_reading_and_writing_observe_what_is_declared(programs: Path, directory: Path, access: str, ranks: int) -> None:
    outcome = testrdwr(programs, directory, ranks, access=access, file_bytes=ranks * 5 * 4096, shipping_blocks=1)
    assert "every byte compared in each of 3 repetitions" in outcome.check
    expected = [(m.name, m.unit, *phase, "all") for phase in PHASES for m in TESTRDWR.metrics]
    assert [tuple(o[key] for key in KEYS) for o in outcome.observations] == expected
    assert all(o["value"] > 0 for o in outcome.observations)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_program_refuses_what_the_description_refuses(
    programs: Path, directory: Path, variant: str, access: str, ranks: int
) -> None:
    point = {"variant": variant, "access": access, "local_block": 1, "replication": 1}
    reason = MATMUL.refuse(point, ranks)
    if reason is None:
        assert (variant, access) in COMBINATIONS
        return
    refusal = matmul(programs, directory, ranks, **point).refusal
    assert variant in refusal
    assert ("does not run with" in reason) == ("does not run with" in refusal)


@pytest.mark.parametrize(
    ("benchmark", "point", "ranks", "reason"),
    [
        (MATMUL, {"variant": "TESTMAT1", "access": "non_collective"}, 8, "needs a square number of ranks (1, 4, 9,"),
        (MATMUL, {"variant": "DB2MREVERSEMAT", "access": "collective"}, 4, "allowed: split_collective"),
        (
            MATMUL,
            {"variant": "MREVERSEMAT", "access": "collective", "local_block": 8192, "replication": 1024},
            64,
            "lower local_block",
        ),
        (TESTRDWR, {"file_bytes": 100, "request_bytes": 10}, 4, "no multiple of request_bytes times 4 ranks, 40"),
    ],
)
def test_what_cannot_run_is_refused_with_what_is_allowed(
    benchmark: Any, point: dict[str, Any], ranks: int, reason: str
) -> None:
    assert reason in benchmark.refuse({p.name: p.default for p in benchmark.parameters} | point, ranks)


@pytest.mark.parametrize(
    ("program", "words", "error"),
    [
        ("mpiio_matmul", ["--variant", "TESTMAT3"], "--variant: 'TESTMAT3' is unknown; allowed: TESTMAT1, TESTMAT2,"),
        ("mpiio_matmul", ["--access", "fast"], "--access: 'fast' is unknown; allowed: non_collective, collective,"),
        ("mpiio_matmul", ["--cache", "cold"], "--cache: 'cold' is unknown; allowed: warm, dropped, direct"),
        ("mpiio_matmul", ["--directory", "here"], "--directory: 'here' is not an absolute path"),
        ("mpiio_matmul", ["--directory", "/no/such"], "--directory /no/such: No such file or directory"),
        ("mpiio_matmul", ["--local-block", "8192", "--replication", "4"], "a smaller --local-block or --replication"),
        ("mpiio_testrdwr", ["--file-bytes", "4097"], "--file-bytes 4097 is no multiple of --request-bytes times 1"),
        ("mpiio_testrdwr", ["--file-bytes", str(1 << 40)], "B free, the files need 1099511627776 B"),
    ],
)
def test_a_wrong_command_line_is_refused_with_what_is_allowed(
    programs: Path, program: str, words: list[str], error: str
) -> None:
    assert error in launch(1, [programs / program, *words]).refusal


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_help_names_the_declared_parameters_with_their_defaults(programs: Path, benchmark: Any) -> None:
    words = [MPI_BIN / "mpiexec", "-n", "1", programs / benchmark.program, "--help"]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    text = " ".join(done.stdout.split())
    for parameter in benchmark.parameters:
        end = "a text" if parameter.maximum is None else f"to {parameter.maximum}"
        row = rf"--{parameter.name.replace('_', '-')} [^;]*?.*? {end}; default: {parameter.default}\b"
        assert re.search(row, text), f"{row} in {text}"


# The first three writes of a rank fill A, B and C; its fourth call, reading or writing, is one that is timed.
FAULTY = [
    ("TESTMAT1", "non_collective", 0),
    ("TESTMAT1", "collective", 0),
    ("SREVERSEMAT", "collective", 1),
    ("TESTMAT2", "non_blocking", 0),
    ("TESTDBMAT2", "split_collective", 1),
]


@pytest.mark.parametrize("fault", ["wrong bit", "short read", "read error", "lost write", "full"])
@pytest.mark.parametrize(("variant", "access", "blocks"), FAULTY)
def test_a_fault_of_storage_fails_the_launch_and_nothing_is_observed(
    programs: Path, directory: Path, faults: Path, variant: str, access: str, blocks: int, fault: str
) -> None:
    words = MATMUL.arguments({"variant": variant, "access": access, "shipping_blocks": blocks, "local_block": 16})
    outcome = launch(
        4, [programs / MATMUL.program, *words, "--directory", directory], LD_PRELOAD=str(faults), FAULT=fault,
        FAULT_CALL="4",
    )  # fmt: skip
    assert outcome.refusal
    system_words = {"read error": "Input/output error", "full": "No space left on device"}
    assert system_words.get(fault, "") in outcome.refusal


@pytest.mark.parametrize("fault", ["lost write", "full"])
def test_a_fault_while_files_are_filled_fails_the_launch(
    programs: Path, directory: Path, faults: Path, fault: str
) -> None:
    words = [programs / MATMUL.program, "--directory", directory]
    assert launch(1, words, LD_PRELOAD=str(faults), FAULT=fault, FAULT_CALL="1").refusal


@pytest.mark.parametrize("fault", ["wrong bit", "short read", "read error", "lost write", "full"])
@pytest.mark.parametrize("access", ["non_collective", "collective"])
def test_a_fault_fails_reading_and_writing(
    programs: Path, directory: Path, faults: Path, access: str, fault: str
) -> None:
    words = TESTRDWR.arguments({"file_bytes": 1 << 20, "request_bytes": 1 << 16, "access": access})
    outcome = launch(
        2, [programs / TESTRDWR.program, *words, "--directory", directory], LD_PRELOAD=str(faults), FAULT=fault,
        FAULT_CALL="3",
    )  # fmt: skip
    assert outcome.refusal


def test_the_cache_is_dropped_or_the_directory_refused(programs: Path, directory: Path) -> None:
    outcome = matmul(programs, directory, cache="dropped", local_block=64)
    if outcome.closing["status"] == "failed" and "stay in memory" in outcome.closing["error"]:
        pytest.skip(f"{directory} is on a file system that lives in memory")
    assert re.search(r"cache dropped, at most \d+ pages stayed$", outcome.check)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no /dev/shm")
def test_a_file_system_in_memory_cannot_drop_its_cache(programs: Path) -> None:
    assert "stay in memory" in testrdwr(programs, Path("/dev/shm"), cache="dropped").refusal


def test_direct_access_is_refused_where_romio_has_none(programs: Path, directory: Path) -> None:
    outcome = testrdwr(programs, directory, cache="direct")
    if outcome.closing["status"] == "failed":
        assert re.search(r"driver \w+ for this directory has no direct I/O; allowed: warm, dropped", outcome.refusal)


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    place = tmp_path / "tmpfs"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted: {done.stderr.strip()}")
    yield place
    left = list(place.iterdir())
    subprocess.run(["umount", place], check=True)
    assert left == []


def test_a_file_system_that_is_too_small_is_refused(programs: Path, tmpfs: Path) -> None:
    assert "B free, the files need 393216 B" in matmul(programs, tmpfs, local_block=32).refusal


def test_a_read_only_file_system_is_refused(programs: Path, tmpfs: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", tmpfs], check=True)
    assert "no folder can be made in it: Read-only file system" in matmul(programs, tmpfs).refusal


def test_a_killed_program_leaves_no_file(programs: Path, directory: Path) -> None:
    words = [MPI_BIN / "mpiexec", "-n", "1", programs / MATMUL.program, "--directory", directory]
    process = subprocess.Popen(
        [*words, "--repetitions", "1000000"],
        # Not over libfabric's shared memory, which a killed rank leaves behind under its process id.
        env=ENVIRONMENT | {"FI_PROVIDER": "tcp"}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not (holders := holders_of_removed_files(directory)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for holder in holders:
            os.kill(holder, signal.SIGKILL)
        assert process.wait(DEADLINE_S) != 0
    finally:
        process.kill()


def holders_of_removed_files(directory: Path) -> list[int]:
    """Processes that have files open which had names in the directory."""
    found = set()
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue
        if target.startswith(f"{directory}/") and target.endswith("C (deleted)"):
            found.add(int(descriptor.parts[2]))
    return sorted(found)


SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}


@pytest.mark.parametrize(
    "words",
    [
        ["mpiio_matmul", "--local-block", "7", "--replication", "2", "--shipping-blocks", "1"],
        ["mpiio_matmul", "--variant", "CREVERSEMAT", "--access", "collective", "--local-block", "65"],
        ["mpiio_matmul", "--variant", "TESTDBMAT1", "--access", "non_blocking", "--replication", "3"],
        ["mpiio_matmul", "--variant", "DB2MREVERSEMAT", "--access", "split_collective", "--replication", "2"],
        ["mpiio_matmul", "--cache", "dropped"],
        ["mpiio_testrdwr", "--file-bytes", "28000", "--request-bytes", "7", "--access", "non_collective"],
        ["mpiio_testrdwr", "--file-bytes", "280000", "--request-bytes", "7000", "--access", "split_collective"],
        ["mpiio_matmul", "--variant", "nothing"],
        ["mpiio_matmul", "--access", "split_collective"],
    ],
    ids=" ".join,
)
def test_sanitizers_find_nothing(sanitized: Path, directory: Path, words: list[str]) -> None:
    program, *rest = words
    outcome = launch(4, [sanitized / program, *rest, "--directory", directory, "--repetitions", "2"], **SANITIZERS)
    assert outcome.closing
    assert "Sanitizer" not in outcome.stderr
    assert "runtime error" not in outcome.stderr
