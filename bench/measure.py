"""Timing for benches: alternate the contenders, take medians, print one line per ratio."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def alternate(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each contender, round by round, so that drift of the machine meets all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            begin = time.perf_counter()
            contender()
            seconds[name].append(time.perf_counter() - begin)
    return seconds


def ratio(what: str, ours: list[float], peer_name: str, peer: list[float], goal: str = "") -> None:
    """`what: 1.04x the peer (0.92 to 1.20 over 5 rounds; ours 1.00 s, peer 0.96 s)`."""
    pairs = sorted(a / b for a, b in zip(ours, peer, strict=True))
    mine, theirs = statistics.median(ours), statistics.median(peer)
    spread = f"{pairs[0]:.2f} to {pairs[-1]:.2f} over {len(pairs)} rounds; {mine:.3g} s against {theirs:.3g} s"
    print(f"{what}: {statistics.median(pairs):.2f}x {peer_name} ({spread}){f'; goal {goal}' if goal else ''}")
