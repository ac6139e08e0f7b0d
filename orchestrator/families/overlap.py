"""Overlap: how much of a circular shift hides behind computation, and what a program gains by it.

The experiments of J. Kim, J. Rho and H. Song, "Overlapping effects of circular shift communication and computation"
(2002): sections 3 (circular shift, Fig. 2) and 4.3 (modified Jacobi, Fig. 5). Every time is the longest of the ranks.
"""

from __future__ import annotations

from orchestrator.families.base import Benchmark, Figure, Metric, Parameter, Parameters, Point

EXCHANGES = ("bsend", "isend_irecv", "sendrecv", "persistent")

MESSAGE_BYTES = Parameter("message_bytes", 8, "payload of one message", unit="B", minimum=1, maximum=1 << 30)
EXCHANGE = Parameter("exchange", "bsend", "how the shift is done; bsend is the paper's", choices=EXCHANGES)
POLL = Parameter("poll", False, "let MPI make progress (MPI_Test) after each overlapped iteration of work")
ITERATION_TIME = Parameter(
    "iteration_time", 1e-6, "what one iteration of work takes, by calibration", unit="s", minimum=1e-8, maximum=1
)
WORK_ITERATIONS = Parameter("work_iterations", 100, "iterations of work in all", minimum=0, maximum=10_000_000)
OVERLAPPED = Parameter(
    "overlapped_iterations", 0, "iterations of work inside the exchange", minimum=0, maximum=10_000_000
)
ORDER = Parameter("order", 64, "rows and columns of a square array", minimum=2, maximum=16_384)
TIME_STEPS = Parameter("time_steps", 100, "time steps timed as one repetition", minimum=1, maximum=1_000_000)


def _refuse_shift(point: Point, ranks: int) -> str | None:
    if ranks < 2:
        return f"a circular shift needs at least 2 ranks, the testbed gives {ranks}"
    overlapped, work = int(point["overlapped_iterations"]), int(point["work_iterations"])
    return None if overlapped <= work else f"overlapped_iterations={overlapped} is more than work_iterations={work}"


def _estimate_shift(parameters: Parameters, repetitions: int) -> float:
    """Seconds if exchanges take 50 us beside the work, done twice in a repetition, and its calibration 10 ms."""
    overlapped = parameters["overlapped_iterations"]
    assert isinstance(overlapped, tuple)
    work = float(parameters["work_iterations"]) * float(parameters["iteration_time"])  # type: ignore[arg-type]
    return 0.01 + len(overlapped) * repetitions * (2 * work + 50e-6)


def _refuse_jacobi(point: Point, ranks: int) -> str | None:
    order = int(point["order"])
    return None if order % ranks == 0 else f"order={order} is not a multiple of {ranks} ranks, so rows cannot be split"


def _estimate_jacobi(parameters: Parameters, repetitions: int) -> float:
    """Seconds if a point takes 2 ns, four versions are run, and a shift takes 20 us."""
    orders = parameters["order"]
    assert isinstance(orders, tuple)
    steps = int(parameters["time_steps"])  # type: ignore[arg-type]
    return repetitions * steps * sum(4 * int(order) ** 2 * 2e-9 + 3 * 20e-6 for order in orders)


def _observed(name: str, meaning: str) -> Metric:
    return Metric(name, "s", "lower", meaning)


BENCHMARKS = (
    Benchmark(
        name="overlap.circular_shift",
        program="overlap_circular_shift",
        summary="every rank sends to the next, with work in between",
        parameters=(MESSAGE_BYTES, EXCHANGE, POLL, ITERATION_TIME, WORK_ITERATIONS, OVERLAPPED),
        metrics=(
            _observed("t_pure", "the exchange alone"),
            _observed("t_comp", "all of the work alone"),
            _observed("t_total", "exchange and all of the work, of which overlapped_iterations inside the exchange"),
            Metric(
                "overlappable", "s", "higher",
                "T_c: least t_total of a launch without overlap, minus the least of all", derived=True,
            ),
            Metric(
                "non_overlappable", "s", "lower", "T_p: least t_pure of a launch, minus overlappable", derived=True
            ),
            Metric(
                "overlap_imb", "1", "higher",
                "(t_pure + t_comp - t_ovrl) / max(t_pure, t_comp) of the overlapped work, within 0 and 1", derived=True,
            ),
            Metric(
                "overlap_osu", "1", "higher",
                "1 - (t_ovrl - t_comp) / t_pure of the overlapped work, at least 0", derived=True,
            ),
        ),
        loops_over="overlapped_iterations",
        figures=(
            Figure("overlap", "Time over overlapped work", "overlapped_iterations", "t_total", x_log=False),
            Figure("overlappable", "Time that can be overlapped", "message_bytes", "overlappable"),
            Figure("non_overlappable", "Time that cannot be overlapped", "message_bytes", "non_overlappable"),
            Figure("ratio_imb", "Overlap as IMB-NBC defines it", "overlapped_iterations", "overlap_imb", False, False),
            Figure("ratio_osu", "Overlap as OSU defines it", "overlapped_iterations", "overlap_osu", False, False),
        ),
        models=("nlogp",),
        derivations=("overlap",),
        refuse=_refuse_shift,
        estimate=_estimate_shift,
    ),
    Benchmark(
        name="overlap.jacobi",
        program="overlap_jacobi",
        summary="modified Jacobi relaxation: serial, blocking and overlapped",
        parameters=(ORDER, TIME_STEPS),
        metrics=(
            _observed("t_serial", "a time step on one rank"),
            _observed("t_blocking", "a time step that computes after the exchange"),
            _observed("t_overlapped", "T: a time step that computes inner rows during the exchange"),
            _observed("t_b", "T_B: of an overlapped step, computing the inner rows"),
            _observed("t_d", "T_D: of an overlapped step, computing the first and last row"),
            _observed("t_r", "T_r: of an overlapped step, the rest but the exchange: copying the new field back"),
            Metric("gain", "s", "higher", "t_blocking minus t_overlapped", derived=True),
            Metric(
                "gain_predicted", "s", "higher",
                "min(t_b, T_c), T_c of an edge row by the nLogP model of the shift on as many ranks", derived=True,
            ),
        ),
        loops_over="order",
        figures=(
            Figure("jacobi", "A time step, overlapped", "order", "t_overlapped"),
            Figure("gain", "Gain by overlap, measured", "order", "gain", y_log=False),
            Figure("gain_predicted", "Gain by overlap, predicted", "order", "gain_predicted", y_log=False),
        ),
        derivations=("overlap",),
        refuse=_refuse_jacobi,
        estimate=_estimate_jacobi,
    ),
)  # fmt: skip
