"""The NPB programs reach NPB's results on any grid of ranks they take, and time nothing that is wrong."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from orchestrator.families.base import Benchmark
from orchestrator.families.npb import BENCHMARKS, EP_PAIRS_LOG2
from tests.integration.test_programs import MPI_BIN, NATIVE, SANITIZERS, YIELDING, Outcome, checked, launch

pytestmark = pytest.mark.local

BY_NAME = {benchmark.name: benchmark for benchmark in BENCHMARKS}
PHASES = {("warmup", 0), ("measure", 0), ("measure", 1)}

each_benchmark = pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)

# Changes the exponent of the first number that the SUM-th sum of doubles (from 1) gives to rank 0.
DAMAGE_SUMS = """
#include <mpi.h>
#include <stdlib.h>
int MPI_Allreduce(const void *send, void *buffer, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    static int sums = 0;
    int rank = 0;
    const int result = PMPI_Allreduce(send, buffer, count, type, op, comm);
    PMPI_Comm_rank(comm, &rank);
    if (type == MPI_DOUBLE && op == MPI_SUM && ++sums == atoi(getenv("SUM")) && rank == 0)
        ((unsigned char *)buffer)[sizeof(double) - 1] ^= 1;
    return result;
}
"""


@pytest.fixture(scope="module")
def damage(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Libraries to preload, by what they damage."""
    folder = tmp_path_factory.mktemp("damage")
    sources = {"message": NATIVE / "corrupt_payload.c", "sum": folder / "sums.c"}
    sources["sum"].write_text(DAMAGE_SUMS, encoding="utf-8")
    for name, source in sources.items():
        checked(MPI_BIN / "mpicc", "-std=c11", "-shared", "-fPIC", source, "-o", folder / f"{name}.so")
    return {name: folder / f"{name}.so" for name in sources}


def run(
    folder: Path,
    benchmark: Benchmark,
    ranks: int,
    repetitions: int = 1,
    size: str = "S",
    environment: dict[str, str] | None = None,
) -> Outcome:
    """After one warm-up."""
    words = benchmark.arguments({"problem_class": size})
    return launch(
        ["-n", str(ranks), folder / benchmark.program, *words, "--warmup", "1", "--repetitions", str(repetitions)],
        (environment or {}) | ({} if ranks == 1 else YIELDING),
    )


def verified(outcome: Outcome) -> Outcome:
    assert outcome.closing["status"] == "ok", outcome.closing | {"stderr": outcome.stderr}
    assert outcome.exit_code == 0
    assert "Sanitizer" not in outcome.stderr
    assert "runtime error" not in outcome.stderr
    return outcome


@each_benchmark
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_program_reaches_npb_s_result(programs: Path, benchmark: Benchmark, ranks: int) -> None:
    assert verified(run(programs, benchmark, ranks)).closing["check"].startswith("verification: ")


@pytest.mark.parametrize(
    ("name", "ranks"),
    [("npb.ep", 3), ("npb.cg", 8), ("npb.lu", 6), ("npb.mg", 16)],
    ids=["an uneven share", "a grid of 2 x 4", "a grid of 3 x 2", "levels too coarse to cut"],
)
def test_a_program_reaches_npb_s_result_on_a_grid_that_is_not_even(programs: Path, name: str, ranks: int) -> None:
    verified(run(programs, BY_NAME[name], ranks))


@pytest.mark.parametrize("ranks", [1, 2])
def test_mg_of_the_paper_s_size_reaches_the_solution(programs: Path, ranks: int) -> None:
    """NPB 3 has no constants for 64^3 points and 40 iterations; what is checked instead says the closing line."""
    assert "solution" in verified(run(programs, BY_NAME["npb.mg"], ranks, size="P")).closing["check"]


@each_benchmark
def test_a_program_observes_what_its_description_declares(programs: Path, benchmark: Benchmark) -> None:
    outcome = verified(run(programs, benchmark, 2, repetitions=2))
    declared = {(metric.name, metric.unit) for metric in benchmark.metrics if not metric.derived}
    for phase in PHASES:
        found = [o for o in outcome.observations if (o["phase"], o["repetition"]) == phase]
        assert declared == {(o["metric"], o["unit"]) for o in found}
        assert len(declared) == len(found)
        value = {o["metric"]: o["value"] for o in found}
        assert all(o["rank"] == "all" and o["operations"] == 1 and o["value"] > 0 for o in found)
        parts = value["communication_time"] + value["computation_time"]
        assert max(value["communication_time"], value["computation_time"]) <= value["time"] <= parts * (1 + 1e-9)
    assert len(outcome.observations) == len(PHASES) * len(declared)


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("npb.ep", 2.0 ** (EP_PAIRS_LOG2["S"] + 1)),
        ("npb.cg", 2 * 15 * 1400 * (3 + 7 * 8 + 25 * (5 + 7 * 8) + 3)),
        ("npb.mg", 58 * 4 * 32**3),
        ("npb.lu", 50 * (1984.77 * 12**3 - 10923.3 * 12**2 + 27770.9 * 12 - 144010)),
    ],
)
def test_the_operation_rate_is_npb_s_count_over_the_time(programs: Path, name: str, operations: float) -> None:
    outcome = verified(run(programs, BY_NAME[name], 1))
    value = {o["metric"]: o["value"] for o in outcome.observations if o["phase"] == "measure"}
    assert math.isclose(operations, value["operation_rate"] * value["time"], rel_tol=1e-12)


@pytest.mark.parametrize(
    ("name", "ranks", "error"),
    [
        ("npb.cg", 3, "CG cannot run on 3 ranks; allowed: 1, 2, 4, 8 and further powers of two"),
        ("npb.mg", 6, "MG cannot run on 6 ranks; allowed: 1, 2, 4, 8 and further powers of two"),
        ("npb.lu", 3, "LU cannot run on 3 ranks, a grid of 3 x 1; allowed: 1, 2, 4, 6, 8, 9, 12 and "),
        ("npb.lu", 20, "class S has 12 points a side, too few for a grid of 5 x 4 ranks; allowed: fewer ranks"),
    ],
)
def test_a_number_of_ranks_that_npb_does_not_take_is_refused(programs: Path, name: str, ranks: int, error: str) -> None:
    outcome = run(programs, BY_NAME[name], ranks)
    assert error in outcome.refusal
    assert outcome.closing["check"] == "ranks"
    assert BY_NAME[name].refuse({"problem_class": "S"}, ranks)


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("npb.ep", [1, 3, 7, 256], [257]),
        ("npb.cg", [1, 2, 4, 8, 16, 128], [3, 6, 12, 1 << 22]),
        ("npb.mg", [1, 2, 4, 8, 16, 4096], [3, 6, 12, 1 << 13]),
        ("npb.lu", [1, 2, 4, 6, 8, 9, 12, 16], [3, 5, 7, 10, 11, 13, 14, 15, 20]),
    ],
)
def test_a_plan_takes_and_refuses_the_ranks_that_the_program_does(
    name: str, taken: list[int], refused: list[int]
) -> None:
    refuse = BY_NAME[name].refuse
    assert {refuse({"problem_class": "S"}, ranks) for ranks in taken} == {None}
    assert all(refuse({"problem_class": "S"}, ranks) for ranks in refused)


@each_benchmark
def test_a_class_that_does_not_exist_is_refused(programs: Path, benchmark: Benchmark) -> None:
    refusal = run(programs, benchmark, 1, size="C").refusal
    assert refusal == "--problem-class: 'C' is not one of the choices; allowed: S, W, A, B, P"


# Each message is one of the last iterations of the warm-up, so that the iterations left cannot make up for it.
@pytest.mark.parametrize(("name", "rank", "message"), [("npb.cg", 1, 1205), ("npb.mg", 1, 120), ("npb.lu", 1, 313)])
def test_a_damaged_message_fails_the_launch(
    programs: Path, damage: dict[str, Path], name: str, rank: int, message: int
) -> None:
    where = {"LD_PRELOAD": str(damage["message"]), "CORRUPT_RANK": str(rank), "CORRUPT_MESSAGE": str(message)}
    outcome = run(programs, BY_NAME[name], 2, environment=where)
    assert "; expected " in outcome.refusal
    assert outcome.closing["check"] == "verification"


@pytest.mark.parametrize(("name", "which"), [("npb.ep", 1), ("npb.ep", 2), ("npb.ep", 3), ("npb.mg", 2), ("npb.lu", 1)])
def test_a_damaged_sum_fails_the_launch(programs: Path, damage: dict[str, Path], name: str, which: int) -> None:
    outcome = run(programs, BY_NAME[name], 2, environment={"LD_PRELOAD": str(damage["sum"]), "SUM": str(which)})
    assert "; expected " in outcome.refusal
    assert outcome.closing["check"] == "verification"


@each_benchmark
@pytest.mark.parametrize("ranks", [1, 4])
def test_sanitizers_find_nothing(sanitized: Path, benchmark: Benchmark, ranks: int) -> None:
    verified(run(sanitized, benchmark, ranks, environment=SANITIZERS))


def test_sanitizers_find_nothing_where_levels_are_too_coarse_to_cut(sanitized: Path) -> None:
    verified(run(sanitized, BY_NAME["npb.mg"], 16, environment=SANITIZERS))
