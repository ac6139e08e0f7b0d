"""NPB: four of NASA's parallel benchmarks, from a kernel without messages to a solver made of small ones.

Problems, constants and operation counts are those of NPB 3.4 (MPI) and of D. Bailey et al., "The NAS Parallel
Benchmarks", RNR-94-007; the programs are mpibed's own. Problem class P has the sizes that a paper gives for a cluster
with VIA over SCI: class W for EP and LU, class A for CG, and for MG the class W of NPB 2, which NPB 3 no longer has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isqrt

from orchestrator.families.base import Benchmark, Figure, Metric, Parameter, Parameters, Point

CLASS = Parameter("problem_class", "S", "problem size: NPB's, or P for the paper's", choices=("S", "W", "A", "B", "P"))

TIME = Metric("time", "s", "lower", "of NPB's timed part, between a barrier and its last result; longest of the ranks")
COMMUNICATION = Metric(
    "communication_time", "s", "lower", "part of `time` spent inside MPI calls, waiting included; longest of the ranks"
)
COMPUTATION = Metric("computation_time", "s", "lower", "`time` minus `communication_time` of a rank; longest of them")
SPEEDUP = Metric("speedup", "1", "higher", "median time on one rank over this median time", derived=True)

EP_PAIRS_LOG2 = {"S": 24, "W": 25, "A": 28, "B": 30, "P": 25}
EP_BATCH_LOG2 = 16
CG_ROWS = {"S": 1400, "W": 7000, "A": 14_000, "B": 75_000, "P": 14_000}
MG_SIDE = {"S": 32, "W": 128, "A": 256, "B": 256, "P": 64}
LU_SIDE = {"S": 12, "W": 33, "A": 64, "B": 102, "P": 33}
LU_LEAST_SIDE = 3

# Of one run on one rank, in s, seen on a core of 2.3 GHz.
SECONDS: Mapping[str, Mapping[str, float]] = {
    "npb.ep": {"S": 0.4, "W": 0.8, "A": 6, "B": 24, "P": 0.8},
    "npb.cg": {"S": 0.02, "W": 0.2, "A": 0.6, "B": 25, "P": 0.6},
    "npb.mg": {"S": 0.002, "W": 0.2, "A": 1.4, "B": 7, "P": 0.15},
    "npb.lu": {"S": 0.02, "W": 1.5, "A": 15, "B": 60, "P": 1.5},
}


def _operation_rate(formula: str) -> Metric:
    return Metric("operation_rate", "1/s", "higher", f"NPB's own count, {formula}, over `time`; 1 Mop/s is 1e6 1/s")


def _phase(name: str, what: str) -> Metric:
    return Metric(name, "s", "lower", f"part of `computation_time` for {what}, without messages; longest of the ranks")


def _power_of_two(point: Point, ranks: int) -> str | None:
    """NPB 3.4 demands it of CG and MG."""
    if ranks & (ranks - 1):
        return f"needs a power of two of ranks (1, 2, 4, 8, ...), the testbed gives {ranks}"
    return None


def _refuse_ep(point: Point, ranks: int) -> str | None:
    """A rank needs a batch of its own."""
    most = 1 << (EP_PAIRS_LOG2[str(point["problem_class"])] - EP_BATCH_LOG2)
    return None if ranks <= most else f"class {point['problem_class']} has work for {most} ranks, not for {ranks}"


def _refuse_cg(point: Point, ranks: int) -> str | None:
    """A rank needs a column; the grid has 2^ceil(l / 2) of them on 2^l ranks."""
    rows = CG_ROWS[str(point["problem_class"])]
    columns = 1 << (ranks.bit_length() // 2)
    too_many = f"class {point['problem_class']} has {rows} rows, too few for {ranks} ranks" if columns > rows else None
    return _power_of_two(point, ranks) or too_many


def _refuse_mg(point: Point, ranks: int) -> str | None:
    """Where a side is cut into more than two, a rank needs two points of it; z, cut first, has 2^ceil(l / 3) parts."""
    side = MG_SIDE[str(point["problem_class"])]
    parts = 1 << ((ranks.bit_length() + 1) // 3)
    too_many = f"class {point['problem_class']} has {side}^3 points, too few for {ranks} ranks"
    return _power_of_two(point, ranks) or (too_many if parts > 2 and 2 * parts > side else None)


def _refuse_lu(point: Point, ranks: int) -> str | None:
    """NPB 3.4: a grid of ranks that is at most twice as long as wide, and three points of a side for each of them."""
    width = max(i for i in range(1, isqrt(ranks) + 1) if ranks % i == 0)
    length = ranks // width
    if length > 2 * width:
        return (
            f"needs a grid of ranks at most twice as long as wide (1, 2, 4, 6, 8, ...), {ranks} is {length} x {width}"
        )
    side = LU_SIDE[str(point["problem_class"])]
    if side // length < LU_LEAST_SIDE:
        return f"class {point['problem_class']} has {side}^3 points, too few for {ranks} ranks"
    return None


def _estimate(name: str) -> Callable[[Parameters, int], float]:
    """Seconds as if on one rank, with NPB's untimed iteration and initial values as a tenth more."""
    return lambda parameters, repetitions: 1.1 * repetitions * SECONDS[name][str(parameters["problem_class"])]


def _benchmark(
    kernel: str, summary: str, operations: str, phases: tuple[Metric, ...], refuse: Callable[[Point, int], str | None]
) -> Benchmark:
    name = f"npb.{kernel}"
    title = f"NPB {kernel.upper()}"
    return Benchmark(
        name=name,
        program=f"npb_{kernel}",
        summary=summary,
        parameters=(CLASS,),
        metrics=(TIME, COMMUNICATION, COMPUTATION, _operation_rate(operations), *phases, SPEEDUP),
        derivations=("speedup",),
        figures=(
            Figure("time", f"{title}: execution time", x="nodes", metric=TIME.name),
            Figure("communication", f"{title}: communication time", x="nodes", metric=COMMUNICATION.name, y_log=False),
            Figure("speedup", f"{title}: speed-up", x="nodes", metric=SPEEDUP.name, y_log=False),
        ),
        refuse=refuse,
        estimate=_estimate(name),
    )


BENCHMARKS = (
    _benchmark(
        "ep",
        "embarrassingly parallel: normal random numbers, three sums at the end",
        "2^(m+1) random numbers of 2^m pairs",
        (_phase("random_time", "uniform numbers"), _phase("gaussian_time", "making normal ones of them")),
        _refuse_ep,
    ),
    _benchmark(
        "cg",
        "conjugate gradient: a sparse random matrix, vectors summed and transposed across the ranks",
        "2 n N (3 + e + 25 (5 + e) + 3) with n iterations, N rows and e = nonzer (nonzer + 1)",
        (_phase("multiply_time", "matrix times vector"),),
        _refuse_cg,
    ),
    _benchmark(
        "mg",
        "multigrid: Poisson's equation on a cube, faces of many sizes swapped between neighbours",
        "58 n N^3 with n iterations and N points a side",
        (
            _phase("residual_time", "residuals"),
            _phase("smoothing_time", "smoothing"),
            _phase("restriction_time", "going to coarser grids"),
            _phase("interpolation_time", "going to finer grids"),
        ),
        _refuse_mg,
    ),
    _benchmark(
        "lu",
        "LU solver: Navier-Stokes by over-relaxation, a pipeline of many small messages",
        "n (1984.77 N^3 - 10923.3 N^2 + 27770.9 N - 144010) with n iterations and N points a side",
        (
            _phase("right_hand_side_time", "the right-hand side"),
            _phase("lower_time", "the lower triangular system"),
            _phase("upper_time", "the upper triangular system"),
        ),
        _refuse_lu,
    ),
)
