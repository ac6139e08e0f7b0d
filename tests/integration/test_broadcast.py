"""The broadcast program on real MPI: whom the root serves, and that every leaf gets every byte or nothing is timed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_programs import MPI_BIN, SANITIZERS, YIELDING, Outcome, checked, launch

from orchestrator.families import broadcast

pytestmark = pytest.mark.local

(ON_NODES,) = (benchmark for benchmark in broadcast.BENCHMARKS if benchmark.where == "nodes")
WARMUP, REPETITIONS = 1, 3

each_algorithm = pytest.mark.parametrize("algorithm", broadcast.ALGORITHM.choices)

# Preloaded in front of MPI. Flips the last bit of the CORRUPT_MESSAGE-th payload (from 1) that rank CORRUPT_RANK gets,
# lets rank LATE_RANK dawdle after each barrier, and tells on standard error whom the root serves.
MEDDLER = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int rank(void) { int rank; PMPI_Comm_rank(MPI_COMM_WORLD, &rank); return rank; }
static int number(const char *name) { return getenv(name) == NULL ? -1 : atoi(getenv(name)); }

static void received(unsigned char *buffer, int bytes)
{
    static int messages = 0;
    if (bytes > 0 && ++messages == number("CORRUPT_MESSAGE") && rank() == number("CORRUPT_RANK"))
        buffer[bytes - 1] ^= 1;
}

static struct { unsigned char *buffer; int bytes; } posted;

int MPI_Irecv(void *buffer, int bytes, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    posted.buffer = buffer;
    posted.bytes = bytes;
    return PMPI_Irecv(buffer, bytes, type, source, tag, comm, request);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    const int result = PMPI_Wait(request, status);
    received(posted.buffer, posted.bytes);
    return result;
}

int MPI_Recv(void *buffer, int bytes, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    const int result = PMPI_Recv(buffer, bytes, type, source, tag, comm, status);
    received(buffer, bytes);
    return result;
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    const int result = PMPI_Bcast(buffer, count, type, root, comm);
    if (type == MPI_BYTE && rank() != root)
        received(buffer, count);
    return result;
}

int MPI_Rsend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    fprintf(stderr, "serves %d\n", to);
    return PMPI_Rsend(buffer, count, type, to, tag, comm);
}

int MPI_Barrier(MPI_Comm comm)
{
    const int result = PMPI_Barrier(comm);
    if (rank() == number("LATE_RANK"))
        usleep(400000);
    return result;
}
"""


@pytest.fixture(scope="module")
def program(programs: Path) -> Path:
    return programs / ON_NODES.program


@pytest.fixture(scope="module")
def meddler(tmp_path_factory: pytest.TempPathFactory) -> str:
    source = tmp_path_factory.mktemp("native") / "meddler.c"
    source.write_text(MEDDLER, encoding="utf-8")
    library = source.with_suffix(".so")
    checked(MPI_BIN / "mpicc", "-shared", "-fPIC", source, "-o", library)
    return str(library)


def run(program: Path, ranks: int, *, environment: dict[str, str] | None = None, **parameters: object) -> Outcome:
    """A short run, with 16 and 64 B behind 4 KiB of interference unless told otherwise."""
    point = {"message_bytes": (16, 64), "interfering_bytes": 4096} | parameters
    words = [*ON_NODES.arguments(point), "--warmup", str(WARMUP), "--repetitions", str(REPETITIONS)]  # type: ignore[arg-type]
    return launch(["-n", str(ranks), program, *words], YIELDING | (environment or {}))


@each_algorithm
@pytest.mark.parametrize(("ranks", "case"), [(2, 1), (3, 1), (4, 2), (5, 4), (8, 1), (8, 6)])
def test_every_leaf_gets_every_byte(program: Path, algorithm: str, ranks: int, case: int) -> None:
    outcome = run(program, ranks, algorithm=algorithm, case=case, message_bytes=(100_000, 1))
    assert outcome.closing["status"] == "ok", outcome.closing
    assert outcome.exit_code == 0
    assert outcome.records[0]["program"]["name"] == ON_NODES.program
    receivers = ranks - 1 + (case < ranks - 1)
    compared = 2 * (WARMUP + REPETITIONS) * receivers
    assert outcome.closing["check"] == f"payload: {compared} messages compared byte for byte, at every leaf"
    keys = ("metric", "unit", "message_bytes", "phase", "repetition", "rank", "operations")
    assert [tuple(one[key] for key in keys) for one in outcome.observations] == [
        (metric.name, metric.unit, size, phase, repetition, "all", 1)
        for size in (100_000, 1)
        for phase, repetition in [("warmup", 0), ("measure", 0), ("measure", 1), ("measure", 2)]
        for metric in ON_NODES.metrics
    ]
    assert all(one["value"] > 0 for one in outcome.observations)


@pytest.mark.parametrize(("algorithm", "order"), [("sequential", [1, 2, 3]), ("readiness", [2, 3, 1])])
def test_the_root_waits_for_a_late_leaf_only_in_rank_order(
    program: Path, meddler: str, algorithm: str, order: list[int]
) -> None:
    """Leaves 2 and 3 may overtake each other, but under readiness the late one is last."""
    environment = {"LD_PRELOAD": meddler, "LATE_RANK": "1"}
    outcome = run(program, 4, environment=environment, algorithm=algorithm, case=3, message_bytes=(16,))
    assert outcome.closing["status"] == "ok", outcome.closing
    served = [int(rank) for rank in re.findall(r"serves (\d)", outcome.stderr)]
    for begin in range(0, 3 * (WARMUP + REPETITIONS), 3):
        found = served[begin : begin + 3]
        assert found == order or (algorithm == "readiness" and found == [3, 2, 1])


# Each leaf gets four messages of each size, and the last rank as many interfering ones in between.
@each_algorithm
@pytest.mark.parametrize(
    ("message", "wrong_bytes", "observed"),
    [(1, 16, []), (4, 16, []), (6, 64, [16])],
    ids=["in the warm-up", "in the last measured message", "in a later size"],
)
def test_a_wrong_byte_fails_the_launch_and_its_size_is_not_observed(
    program: Path, meddler: str, algorithm: str, message: int, wrong_bytes: int, observed: list[int]
) -> None:
    environment = {"LD_PRELOAD": meddler, "CORRUPT_RANK": "2", "CORRUPT_MESSAGE": str(message)}
    outcome = run(program, 4, environment=environment, algorithm=algorithm)
    assert outcome.exit_code == 1
    assert (outcome.closing["status"], outcome.closing["check"]) == ("failed", "payload")
    found = re.fullmatch(
        rf"rank 2: message {message} of {wrong_bytes} B from rank 0 is first wrong at offset {wrong_bytes - 1}:"
        r" expected 0x(..), found 0x(..)",
        outcome.closing["error"],
    )
    assert found, outcome.closing
    assert int(found[1], 16) ^ int(found[2], 16) == 1
    assert observed == sorted({one["message_bytes"] for one in outcome.observations})


@each_algorithm
def test_a_wrong_byte_of_the_interference_is_noticed_too(program: Path, meddler: str, algorithm: str) -> None:
    environment = {"LD_PRELOAD": meddler, "CORRUPT_RANK": "3", "CORRUPT_MESSAGE": "1"}
    outcome = run(program, 4, environment=environment, algorithm=algorithm)
    assert outcome.refusal.startswith("rank 3: message 1 of 4096 B from rank 1 is first wrong at offset 4095")


@pytest.mark.parametrize(
    ("ranks", "parameters", "check", "error"),
    [
        (4, {"case": 4}, "ranks", "--case 4 needs at least 5 ranks, but there are 4"),
        (1, {"case": 1}, "ranks", "--case 1 needs at least 2 ranks, but there are 1"),
        (2, {"case": 0}, "arguments", "--case: '0' is out of range"),
        (
            2,
            {"algorithm": "tree"},
            "arguments",
            "--algorithm: 'tree' is unknown; allowed: sequential, readiness, mpi_b",
        ),
        (2, {"message_bytes": (0,)}, "arguments", "--message-bytes: '0' is out of range"),
        (2, {"interfering_bytes": 0}, "arguments", "--interfering-bytes: '0' is out of range"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_what_makes_no_sense_is_refused(
    program: Path, ranks: int, parameters: dict[str, object], check: str, error: str
) -> None:
    outcome = run(program, ranks, **parameters)
    assert error in outcome.refusal
    assert check == outcome.closing["check"]


def test_help_names_the_declared_parameters_with_their_defaults(program: Path) -> None:
    text = " ".join(checked(MPI_BIN / "mpiexec", "-n", "2", program, "--help").split())
    for parameter in ON_NODES.parameters:
        assert re.search(rf"--{parameter.name.replace('_', '-')} [^;]*; default: {parameter.default}\b", text), text
    for choice in broadcast.ALGORITHM.choices:
        assert str(choice) in text


@each_algorithm
def test_sanitizers_find_nothing(sanitized: Path, algorithm: str) -> None:
    outcome = run(
        sanitized / ON_NODES.program, 4, environment=SANITIZERS, algorithm=algorithm, message_bytes=(1, 7, 100_000)
    )
    assert outcome.closing["status"] == "ok", outcome.stderr
    assert "Sanitizer" not in outcome.stderr
    assert "runtime error" not in outcome.stderr
