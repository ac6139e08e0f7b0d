"""The five ordinary MPI programs: their results are those of one rank, and a damaged message is noticed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator import project
from orchestrator.families.base import Benchmark
from orchestrator.families.mcapps import BENCHMARKS
from tests.integration.test_programs import MPI_BIN, NATIVE, SANITIZERS, YIELDING, Outcome, checked, launch

pytestmark = pytest.mark.local

SIZES = {"words": (1, 3, 5000), "slices": (1, 1000), "order": (12, 48), "elements": (12, 9600), "vertices": (12, 48)}
BY_NAME = {benchmark.name: benchmark for benchmark in BENCHMARKS}
COMMON = {"Init", "Finalize", "Comm_rank", "Comm_size", "Wtime", "Barrier"}  # what every program's life needs
SIX = {"Send", "Recv", "Bcast", "Reduce", "Scatter", "Gather"}

each_benchmark = pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)

# Flips the lowest bit of the last byte that a collective gives to rank 0 for the CALL-th time, from 1. A sum is made
# wrong by its lowest byte but one, beyond what adding in another order may do.
DAMAGE_COLLECTIVES = """
#include <mpi.h>
#include <stdlib.h>
static void damage(unsigned char *last, MPI_Comm comm, int bit)
{
    static int calls = 0;
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    if (rank == 0 && ++calls == atoi(getenv("CALL")))
        *last ^= (unsigned char)bit;
}
int MPI_Gather(const void *send, int send_count, MPI_Datatype send_type, void *buffer, int count, MPI_Datatype type,
               int root, MPI_Comm comm)
{
    int ranks = 0, size = 0;
    const int result = PMPI_Gather(send, send_count, send_type, buffer, count, type, root, comm);
    PMPI_Comm_size(comm, &ranks);
    PMPI_Type_size(type, &size);
    damage((unsigned char *)buffer + (size_t)ranks * count * size - 1, comm, 1);
    return result;
}
int MPI_Reduce(const void *send, void *buffer, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    const int result = PMPI_Reduce(send, buffer, count, type, op, root, comm);
    damage((unsigned char *)buffer + 6, comm, 1);
    return result;
}
"""


def run(folder: Path, benchmark: Benchmark, ranks: int, sizes: tuple[int, ...] = (), **environment: str) -> Outcome:
    """One warm-up and two measured repetitions."""
    swept = str(benchmark.loops_over)
    parameters: dict[str, Any] = {swept: sizes or SIZES[swept]}
    if benchmark.parameter("exchanges"):
        parameters["exchanges"] = 10
    words = ["--warmup", "1", "--repetitions", "2", *benchmark.arguments(parameters)]
    yielding = YIELDING if ranks > 2 else {}
    return launch(["-n", str(ranks), folder / benchmark.program, *words], yielding | environment)


def allowed(benchmark: Benchmark) -> list[int]:
    """Numbers of ranks; three is no power of two."""
    return [2] if benchmark.name == "mcapps.ping_pong" else [1, 2, 3, 4]


each_placement = pytest.mark.parametrize(
    ("benchmark", "ranks"),
    [(benchmark, ranks) for benchmark in BENCHMARKS for ranks in allowed(benchmark)],
    ids=lambda value: getattr(value, "name", str(value)),
)


@each_placement
def test_a_program_observes_what_its_description_declares(programs: Path, benchmark: Benchmark, ranks: int) -> None:
    outcome = run(programs, benchmark, ranks)
    assert outcome.closing["status"] == "ok", outcome.closing
    swept = str(benchmark.loops_over)
    expected = [
        (metric.name, metric.unit, size, phase, repetition, "all", 1)
        for size in SIZES[swept]
        for phase, repetition in [("warmup", 0), ("measure", 0), ("measure", 1)]
        for metric in benchmark.metrics
        if not metric.derived
    ]
    keys = ("metric", "unit", swept, "phase", "repetition", "rank", "operations")
    assert [tuple(observation[key] for key in keys) for observation in outcome.observations] == expected
    assert all(observation["value"] > 0 for observation in outcome.observations)
    assert "equal to" in outcome.closing["check"]


@each_benchmark
def test_help_names_the_declared_parameters_with_their_defaults(programs: Path, benchmark: Benchmark) -> None:
    text = " ".join(checked(MPI_BIN / "mpiexec", "-n", "2", programs / benchmark.program, "--help").split())
    for parameter in benchmark.parameters:
        row = rf"--{parameter.name} [^;]*? to {parameter.maximum}; default: {parameter.default}\b"
        assert re.search(row, text), f"{row} in {text}"


@each_benchmark
def test_a_program_does_its_work_by_the_six_calls_alone(benchmark: Benchmark) -> None:
    """So that any transport of these six can be put under it."""
    source = (project.NODE_SOURCES / "mcapps" / f"{benchmark.program}.c").read_text(encoding="utf-8")
    assert set(re.findall(r"\bMPI_(\w+)\(", source)) <= SIX
    shared = (project.NODE_SOURCES / "mcapps" / "application.c").read_text(encoding="utf-8")
    assert set(re.findall(r"\bMPI_(\w+)\(", shared)) <= SIX | COMMON


@pytest.mark.parametrize(
    ("name", "message", "error"),
    [
        ("mcapps.ping_pong", 5, r"word 63 of 64 came back as \d+, sent was \d+"),
        ("mcapps.sort", 1, r"element \d+ of 64 in order is \d+, the serial one \d+"),
    ],
)
def test_a_wrong_byte_in_a_message_fails_the_launch(
    programs: Path, tmp_path: Path, name: str, message: int, error: str
) -> None:
    library = tmp_path / "corrupt_payload.so"
    checked(MPI_BIN / "mpicc", "-std=c11", "-shared", "-fPIC", NATIVE / "corrupt_payload.c", "-o", library)
    environment = {"LD_PRELOAD": str(library), "CORRUPT_RANK": "0", "CORRUPT_MESSAGE": str(message)}
    outcome = run(programs, BY_NAME[name], 2, (64,), **environment)
    assert re.fullmatch(error, outcome.refusal)
    assert outcome.closing["check"] == "result"


@pytest.mark.parametrize("call", [1, 3], ids=["in the warm-up", "in the last repetition"])
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("mcapps.pi", r"pi of 64 slices is 3\.\d+, the serial sum 3\.\d+; allowed: a difference of 1e-09"),
        ("mcapps.matrix_vector", r"element 63 of the product of order 64 is -?\d+, the serial one \d+"),
        ("mcapps.shortest_paths", r"the distance from vertex 63 to 63 of 64 is \d+, the serial one 0"),
    ],
)
def test_a_wrong_byte_from_a_collective_fails_the_launch(
    programs: Path, tmp_path: Path, name: str, error: str, call: int
) -> None:
    source, library = tmp_path / "damage_collectives.c", tmp_path / "damage_collectives.so"
    source.write_text(DAMAGE_COLLECTIVES, encoding="utf-8")
    checked(MPI_BIN / "mpicc", "-std=c11", "-shared", "-fPIC", source, "-o", library)
    outcome = run(programs, BY_NAME[name], 2, (64,), LD_PRELOAD=str(library), CALL=str(call))
    assert re.fullmatch(error, outcome.refusal)
    assert outcome.closing["check"] == "result"


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_ping_pong_needs_two_ranks(programs: Path, ranks: int) -> None:
    benchmark = BY_NAME["mcapps.ping_pong"]
    assert run(programs, benchmark, ranks).refusal == f"needs exactly 2 ranks, but there are {ranks}"
    assert benchmark.refuse({"words": 1}, ranks) == f"needs exactly 2 ranks, the testbed gives {ranks}"


@pytest.mark.parametrize("name", ["mcapps.matrix_vector", "mcapps.sort", "mcapps.shortest_paths"])
def test_a_size_that_cannot_be_split_evenly_is_refused(programs: Path, name: str) -> None:
    benchmark = BY_NAME[name]
    size = benchmark.loops_over
    error = f"{size} 13 cannot be split evenly over 4 ranks; allowed: a multiple of 4"
    assert run(programs, benchmark, 4, (12, 13)).refusal == error
    assert benchmark.refuse({str(size): 13}, 4) == f"{size}=13 cannot be split evenly over 4 ranks"
    assert benchmark.refuse({str(size): 12}, 4) is None


@each_benchmark
def test_a_size_of_nothing_is_refused(programs: Path, benchmark: Benchmark) -> None:
    assert f"--{benchmark.loops_over}: '0' is out of range" in run(programs, benchmark, 2, (0,)).refusal


@each_placement
def test_sanitizers_find_nothing(sanitized: Path, benchmark: Benchmark, ranks: int) -> None:
    outcome = run(sanitized, benchmark, ranks, **SANITIZERS)
    assert outcome.closing["status"] == "ok", outcome.stderr
