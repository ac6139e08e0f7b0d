"""Point-to-point: what one message costs between two ranks, and how many fit in a second.

With `pairs` = k, rank i talks to rank i + k, so a launch has exactly 2k ranks. All pairs run at the same time; the
value of a repetition is that of the slowest pair (latency) or of all pairs together over the longest time (rates).
"""

from __future__ import annotations

from dataclasses import replace

from orchestrator.families.base import Benchmark, Figure, Metric, Parameter, Parameters, Point

MESSAGE_BYTES = Parameter("message_bytes", 8, "payload of one message", unit="B", minimum=0, maximum=1 << 30)
PAYLOAD_BYTES = replace(MESSAGE_BYTES, minimum=1)  # no payload has no bandwidth
PAIRS = Parameter("pairs", 1, "pairs of ranks that communicate at the same time", minimum=1, maximum=1024)
EXCHANGES = Parameter(
    "exchanges", 100, "exchanges timed as one repetition, fewer for large messages (at most 4 MiB each way)",
    minimum=1, maximum=1_000_000,
)  # fmt: skip
WINDOW = Parameter("window", 64, "messages in flight before an acknowledgement", minimum=1, maximum=65_536)


def _needs_two_ranks_a_pair(point: Point, ranks: int) -> str | None:
    need = 2 * int(point["pairs"])
    return None if ranks == need else f"pairs={point['pairs']} needs exactly {need} ranks, the testbed gives {ranks}"


def _estimate(parameters: Parameters, repetitions: int) -> float:
    """Seconds if a message costs 5 us and its payload moves at 2 GB/s."""
    sizes = parameters["message_bytes"]
    assert isinstance(sizes, tuple)
    count = int(parameters.get("exchanges", parameters.get("window", 1)))  # type: ignore[arg-type]
    largest = 4 << 20 if "exchanges" in parameters else 64 << 20  # bytes in one repetition, as the programs cap them
    messages = (2 * min(count, max(1, largest // max(int(size), 1))) for size in sizes)
    return repetitions * sum(n * (5e-6 + int(size) / 2e9) for n, size in zip(messages, sizes, strict=True))


def _over_size(name: str, title: str, metric: str, model: str | None = None) -> Figure:
    return Figure(name=name, title=title, x="message_bytes", metric=metric, model=model)


BENCHMARKS = (
    Benchmark(
        name="p2p.latency",
        program="p2p_latency",
        summary="ping-pong: one-way time of a message",
        parameters=(MESSAGE_BYTES, PAIRS, EXCHANGES),
        metrics=(
            Metric(
                "one_way_latency", "s", "lower", "half the mean round trip of a repetition's exchanges; slowest pair"
            ),
        ),
        loops_over="message_bytes",
        figures=(_over_size("latency", "One-way latency", "one_way_latency", model="hockney"),),
        models=("hockney",),
        refuse=_needs_two_ranks_a_pair,
        estimate=_estimate,
    ),
    Benchmark(
        name="p2p.bandwidth",
        program="p2p_bandwidth",
        summary="a window of messages one way, then one acknowledgement",
        parameters=(PAYLOAD_BYTES, PAIRS, WINDOW),
        metrics=(Metric("bandwidth", "B/s", "higher", "payload of all pairs over the longest time of a window"),),
        loops_over="message_bytes",
        figures=(_over_size("bandwidth", "Bandwidth", "bandwidth"),),
        refuse=_needs_two_ranks_a_pair,
        estimate=_estimate,
    ),
    Benchmark(
        name="p2p.bidirectional",
        program="p2p_bidirectional",
        summary="windows of messages both ways at once",
        parameters=(PAYLOAD_BYTES, PAIRS, WINDOW),
        metrics=(
            Metric(
                "bidirectional_bandwidth", "B/s", "higher", "payload of both directions and all pairs, longest time"
            ),
        ),
        loops_over="message_bytes",
        figures=(_over_size("bidirectional", "Bidirectional bandwidth", "bidirectional_bandwidth"),),
        refuse=_needs_two_ranks_a_pair,
        estimate=_estimate,
    ),
    Benchmark(
        name="p2p.message_rate",
        program="p2p_message_rate",
        summary="messages a second that all pairs together send one way",
        parameters=(MESSAGE_BYTES, PAIRS, WINDOW),
        metrics=(Metric("message_rate", "1/s", "higher", "messages of all pairs over the longest time of a window"),),
        loops_over="message_bytes",
        figures=(_over_size("message_rate", "Message rate", "message_rate"),),
        refuse=_needs_two_ranks_a_pair,
        estimate=_estimate,
    ),
)
