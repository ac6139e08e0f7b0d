"""The overlap programs: every exchange is verified, the relaxation equals the serial one, bad sizes are refused."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from orchestrator.families.base import Benchmark
from orchestrator.families.overlap import BENCHMARKS, EXCHANGES
from tests.integration.test_programs import MPI_BIN, NATIVE, SANITIZERS, YIELDING, Outcome, checked, launch

pytestmark = pytest.mark.local

SHIFT, JACOBI = BENCHMARKS
EACH_WAY = list(product(EXCHANGES, (False, True)))

each_benchmark = pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
each_way = pytest.mark.parametrize(("exchange", "poll"), EACH_WAY, ids=lambda value: str(value))

# Requests made once are received by MPI_Recv_init, which the common library that damages messages does not know.
DAMAGE_PERSISTENT = """
#include <mpi.h>
static unsigned char *last;
int MPI_Recv_init(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    last = (unsigned char *)buffer + count - 1;
    return PMPI_Recv_init(buffer, count, type, source, tag, comm, request);
}
int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
    static int calls = 0;
    int rank = 0;
    const int result = PMPI_Waitall(count, requests, statuses);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (++calls == 3 && rank == 1)
        *last ^= 1;
    return result;
}
"""


def damaging(folder: Path, source: Path) -> str:
    """A library to preload, built from that source."""
    library = folder / f"{source.stem}.so"
    checked(MPI_BIN / "mpicc", "-std=c11", "-shared", "-fPIC", source, "-o", library)
    return str(library)


def run(folder: Path, benchmark: Benchmark, ranks: int, parameters: dict[str, Any], **environment: str) -> Outcome:
    """One warm-up and three measured repetitions, unless the parameters say otherwise."""
    words = ["--warmup", "1", "--repetitions", "3", *benchmark.arguments(parameters)]
    yielding = YIELDING if ranks > 2 else {}
    return launch(["-n", str(ranks), folder / benchmark.program, *words], yielding | environment)


def shift(folder: Path, ranks: int, environment: dict[str, str] | None = None, **parameters: Any) -> Outcome:
    quick = {"iteration_time": 1e-6, "work_iterations": 10, "overlapped_iterations": (0, 5, 10)}
    return run(folder, SHIFT, ranks, quick | parameters, **(environment or {}))


def jacobi(folder: Path, ranks: int, environment: dict[str, str] | None = None, **parameters: Any) -> Outcome:
    return run(folder, JACOBI, ranks, {"order": (8, 64), "time_steps": 5} | parameters, **(environment or {}))


def observed(benchmark: Benchmark, swept: tuple[int, ...], operations: int) -> list[tuple[Any, ...]]:
    """What a launch of one warm-up and three repetitions writes: the declared metrics that are not derived."""
    return [
        (metric.name, metric.unit, value, phase, repetition, "all", operations)
        for value in swept
        for phase, repetition in [("warmup", 0), ("measure", 0), ("measure", 1), ("measure", 2)]
        for metric in benchmark.metrics
        if not metric.derived
    ]


def written(outcome: Outcome, swept: str) -> list[tuple[Any, ...]]:
    keys = ("metric", "unit", swept, "phase", "repetition", "rank", "operations")
    return [tuple(observation[key] for key in keys) for observation in outcome.observations]


@pytest.mark.parametrize("ranks", [2, 4])
@each_way
def test_every_way_to_exchange_observes_what_its_description_declares(
    programs: Path, exchange: str, poll: bool, ranks: int
) -> None:
    outcome = shift(programs, ranks, message_bytes=1000, exchange=exchange, poll=poll)
    assert outcome.closing["status"] == "ok", outcome.closing
    assert written(outcome, "overlapped_iterations") == observed(SHIFT, (0, 5, 10), 1)
    assert all(observation["value"] > 0 for observation in outcome.observations)
    assert outcome.closing["check"] == "payload: 24 messages a rank compared byte for byte"


@each_way
def test_messages_beyond_the_eager_limit_are_exchanged_too(programs: Path, exchange: str, poll: bool) -> None:
    outcome = shift(programs, 2, message_bytes=5_000_001, exchange=exchange, poll=poll)
    assert outcome.closing["status"] == "ok", outcome.closing


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_the_relaxation_equals_the_serial_one_on_any_ranks_that_divide_it(programs: Path, ranks: int) -> None:
    """Order 8 on 8 ranks is a row each: no inner rows, and the first is the last."""
    outcome = jacobi(programs, ranks)
    assert outcome.closing["status"] == "ok", outcome.closing
    assert written(outcome, "order") == observed(JACOBI, (8, 64), 5)
    assert all(observation["value"] >= 0 for observation in outcome.observations)
    points = 4 * 3 * (8**2 + 64**2)  # repetitions, runs of each
    assert outcome.closing["check"] == f"field: {points} points equal to the serial ones bit for bit"


def test_work_is_calibrated_in_the_unit_it_is_asked_for(programs: Path) -> None:
    """A bound that load on the machine cannot break: 2 ms of work take more than a twentieth of that."""
    outcome = shift(programs, 2, iteration_time=1e-4, work_iterations=20, overlapped_iterations=(0,))
    assert min(o["value"] for o in outcome.observations if o["metric"] == "t_comp") > 1e-4


@each_benchmark
def test_help_names_the_declared_parameters_with_their_defaults(programs: Path, benchmark: Benchmark) -> None:
    text = " ".join(checked(MPI_BIN / "mpiexec", "-n", "2", programs / benchmark.program, "--help").split())
    for parameter in benchmark.parameters:
        default = int(parameter.default) if isinstance(parameter.default, bool) else parameter.default
        bounds = "" if parameter.kind in (str, bool) else rf"[^;]* to {parameter.maximum:.15g}"
        row = rf"--{parameter.name.replace('_', '-')} {bounds or '[^;]*'}; default: {default}"
        assert re.search(row, text), f"{row} in {text}"


# Of each overlapped amount, a rank receives 8 messages: two a repetition, one of them warm-up.
@pytest.mark.parametrize(("message", "observed"), [(1, []), (8, []), (9, [0])], ids=["first", "last", "later"])
@pytest.mark.parametrize("exchange", ["bsend", "isend_irecv", "sendrecv"])
def test_a_wrong_byte_fails_the_launch_and_its_amount_is_not_observed(
    programs: Path, tmp_path: Path, exchange: str, message: int, observed: list[int]
) -> None:
    damage = {
        "LD_PRELOAD": damaging(tmp_path, NATIVE / "corrupt_payload.c"),
        "CORRUPT_RANK": "1",
        "CORRUPT_MESSAGE": str(message),
    }
    outcome = shift(programs, 2, damage, message_bytes=64, exchange=exchange)
    assert outcome.exit_code == 1
    assert (outcome.closing["status"], outcome.closing["check"]) == ("failed", "payload")
    assert outcome.closing["error"].startswith(
        f"rank 1: message {message - 1} of 64 B from rank 0 is first wrong at offset 63: expected 0x"
    )
    assert observed == sorted({observation["overlapped_iterations"] for observation in outcome.observations})


def test_a_wrong_byte_of_a_persistent_exchange_is_noticed_too(programs: Path, tmp_path: Path) -> None:
    source = tmp_path / "damage_persistent.c"
    source.write_text(DAMAGE_PERSISTENT, encoding="utf-8")
    outcome = shift(programs, 2, {"LD_PRELOAD": damaging(tmp_path, source)}, message_bytes=64, exchange="persistent")
    assert "rank 1: message 2 of 64 B from rank 0 is first wrong at offset 63" in outcome.refusal


# Two rows a step; 5 steps a run: the blocking run comes first, the overlapped one after it.
@pytest.mark.parametrize(("message", "version"), [(1, "blocking"), (11, "overlapped")])
def test_a_wrong_bit_in_a_row_fails_the_relaxation(programs: Path, tmp_path: Path, message: int, version: str) -> None:
    damage = {
        "LD_PRELOAD": damaging(tmp_path, NATIVE / "corrupt_payload.c"),
        "CORRUPT_RANK": "1",
        "CORRUPT_MESSAGE": str(message),
    }
    outcome = jacobi(programs, 2, damage, order=(8,), time_steps=5)
    assert re.match(rf"the {version} field of order 8 is first wrong in row \d, column \d: expected", outcome.refusal)


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"overlapped_iterations": (0, 11)}, "--overlapped-iterations: 11 are more than the 10 of all work"),
        ({"exchange": "ssend"}, "'ssend' is no way to exchange; allowed: bsend, isend_irecv, sendrecv, persistent"),
        ({"message_bytes": 0}, "--message-bytes: '0' is out of range"),
        ({"iteration_time": 0.0}, "--iteration-time: '0.0' is out of range"),
        ({"poll": 2}, "--poll: '2' is out of range"),
    ],
)
def test_a_wrong_shift_is_refused_with_what_is_allowed(programs: Path, parameters: dict[str, Any], error: str) -> None:
    assert error in shift(programs, 2, **parameters).refusal


def test_a_shift_of_one_rank_is_refused(programs: Path) -> None:
    assert shift(programs, 1).refusal == "a circular shift needs at least 2 ranks, but there is 1"


def test_an_order_that_the_ranks_do_not_divide_is_refused(programs: Path) -> None:
    error = "order 9 cannot be split into equal rows for 4 ranks; allowed: a multiple of 4"
    assert jacobi(programs, 4, order=(8, 9)).refusal == error


def test_the_description_refuses_what_the_programs_refuse() -> None:
    point = {"work_iterations": 10, "overlapped_iterations": 10}
    assert SHIFT.refuse(point, 2) is None
    assert SHIFT.refuse(point, 1) == "a circular shift needs at least 2 ranks, the testbed gives 1"
    assert SHIFT.refuse(point | {"work_iterations": 9}, 2) == "overlapped_iterations=10 is more than work_iterations=9"
    assert JACOBI.refuse({"order": 64}, 8) is None
    assert JACOBI.refuse({"order": 64}, 3) == "order=64 is not a multiple of 3 ranks, so rows cannot be split"


@pytest.mark.parametrize("ranks", [2, 4])
@each_way
def test_sanitizers_find_nothing_in_a_shift(sanitized: Path, exchange: str, poll: bool, ranks: int) -> None:
    outcome = shift(sanitized, ranks, SANITIZERS, message_bytes=100_001, exchange=exchange, poll=poll)
    assert outcome.closing["status"] == "ok", outcome.stderr


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_sanitizers_find_nothing_in_the_relaxation(sanitized: Path, ranks: int) -> None:
    outcome = jacobi(sanitized, ranks, SANITIZERS, order=(4, 12))
    assert outcome.closing["status"] == "ok", outcome.stderr
