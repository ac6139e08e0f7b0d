"""Five ordinary MPI programs, the workload of a comparison between ways to carry messages.

Those of Table 5 of "A technique for executing MPI parallel programs efficiently on memory-centric computer
architecture" (MC-MPI): their own work uses MPI_Send, MPI_Recv, MPI_Bcast, MPI_Reduce, MPI_Scatter and MPI_Gather alone.
Each has one size, the paper's N, under the name of what it counts.
"""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.families.base import Benchmark, Figure, Metric, Parameter, Parameters, Point

TIME = Metric("time", "s", "lower", "from the input on rank 0 to the result there; longest of the ranks")
SPEEDUP = Metric("speedup", "1", "higher", "time on one rank over this time", derived=True)

WORDS = Parameter("words", 1024, "words of 4 B in a message", minimum=1, maximum=1 << 28)
EXCHANGES = Parameter("exchanges", 1000, "exchanges timed as one repetition", minimum=1, maximum=1_000_000)
SLICES = Parameter("slices", 1_000_000, "slices of the integral", minimum=1, maximum=1_000_000_000)
ORDER = Parameter("order", 512, "rows and columns of a square array", minimum=1, maximum=32_768)
ELEMENTS = Parameter("elements", 65_536, "integers to sort", minimum=1, maximum=1 << 30)
VERTICES = Parameter("vertices", 128, "vertices of the graph", minimum=1, maximum=16_384)


def _needs_two(_point: Point, ranks: int) -> str | None:
    return None if ranks == 2 else f"needs exactly 2 ranks, the testbed gives {ranks}"


def _splits(size: str) -> Callable[[Point, int], str | None]:
    def refuse(point: Point, ranks: int) -> str | None:
        value = int(point[size])
        return None if value % ranks == 0 else f"{size}={value} cannot be split evenly over {ranks} ranks"

    return refuse


def _costs(size: str, seconds: Callable[[float], float]) -> Callable[[Parameters, int], float]:
    """Seconds of one serial solution and `repetitions` parallel ones, each as long at worst."""

    def estimate(parameters: Parameters, repetitions: int) -> float:
        values = parameters[size]
        assert isinstance(values, tuple)
        return (1 + repetitions) * sum(seconds(float(value)) for value in values)

    return estimate


def _estimate_ping_pong(parameters: Parameters, repetitions: int) -> float:
    """Seconds if a message costs 5 us and its payload moves at 2 GB/s."""
    words = parameters["words"]
    assert isinstance(words, tuple)
    messages = 2 * int(parameters["exchanges"])  # type: ignore[arg-type]
    return repetitions * messages * sum(5e-6 + 4 * int(count) / 2e9 for count in words)


def _over(size: str, title: str) -> tuple[Figure, ...]:
    return (Figure(name="time", title=title, x=size, metric=TIME.name),)


BENCHMARKS = (
    Benchmark(
        name="mcapps.ping_pong",
        program="mcapps_ping_pong",
        summary="two ranks pass N words to and fro",
        parameters=(WORDS, EXCHANGES),
        metrics=(TIME,),
        loops_over="words",
        figures=_over("words", "Ping-pong"),
        refuse=_needs_two,
        estimate=_estimate_ping_pong,
    ),
    Benchmark(
        name="mcapps.pi",
        program="mcapps_pi",
        summary="pi by an integral of N slices",
        parameters=(SLICES,),
        metrics=(TIME, SPEEDUP),
        derivations=("speedup",),
        loops_over="slices",
        figures=_over("slices", "Pi calculation"),
        estimate=_costs("slices", lambda n: 3e-9 * n),
    ),
    Benchmark(
        name="mcapps.matrix_vector",
        program="mcapps_matrix_vector",
        summary="N x N matrix times vector, rows spread over the ranks",
        parameters=(ORDER,),
        metrics=(TIME, SPEEDUP),
        derivations=("speedup",),
        loops_over="order",
        figures=_over("order", "Matrix-vector multiplication"),
        refuse=_splits("order"),
        estimate=_costs("order", lambda n: 2e-9 * n * n),
    ),
    Benchmark(
        name="mcapps.sort",
        program="mcapps_sort",
        summary="N integers: quicksort on each rank, merged in pairs",
        parameters=(ELEMENTS,),
        metrics=(TIME, SPEEDUP),
        derivations=("speedup",),
        loops_over="elements",
        figures=_over("elements", "Sorting"),
        refuse=_splits("elements"),
        estimate=_costs("elements", lambda n: 1e-7 * n),
    ),
    Benchmark(
        name="mcapps.shortest_paths",
        program="mcapps_shortest_paths",
        summary="shortest paths between all pairs of N vertices",
        parameters=(VERTICES,),
        metrics=(TIME, SPEEDUP),
        derivations=("speedup",),
        loops_over="vertices",
        figures=_over("vertices", "All-pairs shortest paths"),
        refuse=_splits("vertices"),
        estimate=_costs("vertices", lambda n: 1e-9 * n**3 + 2e-5 * n),
    ),
)
