"""Broadcast while some nodes are busy: does it pay to serve whoever is ready, instead of all in order?

After H. Yun, W. Chung and Y. Lee, "The Design of MPI Hardware Unit for Enhanced Broadcast Communication" (KICS, 2011):
once as the paper asks it, in a model of its hardware, and once of real MPI. docs/broadcast.md has the model.
"""

from __future__ import annotations

from orchestrator.families.base import Benchmark, Figure, Metric, Parameter, Parameters, Point
from orchestrator.models import trees
from orchestrator.models.broadcast_scenario import UNITS, Scenario

_MODEL_BYTES, _NODE_BYTES = 1 << 20, 1 << 30


def _message_bytes(default: int, maximum: int) -> Parameter:
    return Parameter("message_bytes", default, "payload of one message", unit="B", minimum=1, maximum=maximum)


def _interfering_bytes(default: int, maximum: int) -> Parameter:
    help_text = "payload of the transfer that two nodes are busy with first"
    return Parameter("interfering_bytes", default, help_text, unit="B", minimum=1, maximum=maximum)


PROCESSING_NODES = Parameter("processing_nodes", 8, "nodes of the modelled system", minimum=2, maximum=1024)
CASE = Parameter(
    "case", 1, "node that is busy with the last node, as the paper counts; the last node itself: no interference",
    minimum=1, maximum=1 << 20,
)  # fmt: skip
INTERFERERS = Parameter("interferers", 1, "busy pairs: from `case` and the last node inwards", minimum=1, maximum=511)
TREE = Parameter("tree", "sequential", "whom each node hands the message on to", choices=trees.NAMES)
MPI_UNIT = Parameter("mpi_unit", "proposed", "serves leaves in order, or as they become ready", choices=UNITS)
ARRIVAL_SPREAD = Parameter(
    "arrival_spread_cycles", 0, "each leaf calls the broadcast at a random cycle up to this", minimum=0, maximum=1 << 20
)  # fmt: skip
ARRIVAL_SEED = Parameter("arrival_seed", 0, "of those cycles, with the repetition", minimum=0, maximum=(1 << 31) - 1)
ALGORITHM = Parameter(
    "algorithm", "sequential", "the root serves leaves in rank order, or by readiness, or MPI_Bcast does it",
    choices=("sequential", "readiness", "mpi_bcast"),
)  # fmt: skip


def _impossible_scenario(point: Point, _ranks: int) -> str | None:
    return Scenario(
        nodes=int(point["processing_nodes"]),
        message_bytes=int(point["message_bytes"]),
        case=int(point["case"]),
        interfering_bytes=int(point["interfering_bytes"]),
        interferers=int(point["interferers"]),
    ).refusal()


def _case_needs_ranks(point: Point, ranks: int) -> str | None:
    case = int(point["case"])
    return None if case < ranks else f"case={case} needs at least {case + 1} ranks, the testbed gives {ranks}"


def _model_seconds(parameters: Parameters, repetitions: int) -> float:
    """If a node's part in one simulation takes 0.15 ms; without chance, repetitions are simulated once."""
    sizes = parameters["message_bytes"]
    assert isinstance(sizes, tuple)
    different = repetitions if parameters["arrival_spread_cycles"] else 1
    return 0.1 + 2 * len(sizes) * different * int(parameters["processing_nodes"]) * 1.5e-4  # type: ignore[arg-type]


def _node_seconds(parameters: Parameters, repetitions: int) -> float:
    """If the interference and some leaves' turns move at 1 GB/s and the rest of a repetition takes 0.2 ms."""
    sizes = parameters["message_bytes"]
    assert isinstance(sizes, tuple)
    interfering_bytes = int(parameters["interfering_bytes"])  # type: ignore[arg-type]
    return repetitions * sum(2e-4 + (interfering_bytes + 8 * int(size)) / 1e9 for size in sizes)


def _cycles_by(x: str, *, log: bool = False) -> Figure:
    return Figure(f"cycles_by_{x}", "Cycles of a broadcast", x, "broadcast_cycles", x_log=log, y_log=log)


BENCHMARKS = (
    Benchmark(
        name="broadcast.cycle_model",
        program="orchestrator.models.broadcast_cycles",
        summary="cycles of a broadcast among hardware MPI units, a model",
        parameters=(
            *(_message_bytes(64, _MODEL_BYTES), PROCESSING_NODES, CASE, _interfering_bytes(512, _MODEL_BYTES)),
            *(INTERFERERS, TREE, MPI_UNIT, ARRIVAL_SPREAD, ARRIVAL_SEED),
        ),
        metrics=(
            Metric("broadcast_cycles", "1", "lower", "clock cycles from the root's call until every node is through"),
            Metric("speedup", "1", "higher", "cycles of the conventional unit over those of `mpi_unit`"),
        ),
        loops_over="message_bytes",
        figures=(
            Figure("speedup", "Speed-up", "message_bytes", "speedup", y_log=False),
            _cycles_by("case"),
            _cycles_by("processing_nodes", log=True),
            _cycles_by("interferers"),
            _cycles_by("arrival_spread_cycles"),
        ),
        where="host",
        refuse=_impossible_scenario,
        estimate=_model_seconds,
    ),
    Benchmark(
        name="broadcast.under_interference",
        program="broadcast_under_interference",
        summary="a broadcast while two of its leaves are busy with each other",
        parameters=(
            *(_message_bytes(1024, _NODE_BYTES), CASE, _interfering_bytes(1 << 20, _NODE_BYTES)),
            ALGORITHM,
        ),
        metrics=(
            Metric("broadcast_time", "s", "lower", "from a barrier to the end of the broadcast; slowest rank"),
        ),
        loops_over="message_bytes",
        figures=(Figure("broadcast", "Broadcast time", "message_bytes", "broadcast_time"),),
        refuse=_case_needs_ranks,
        estimate=_node_seconds,
    ),
)  # fmt: skip
