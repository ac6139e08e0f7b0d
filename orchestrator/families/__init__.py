"""The registry: every benchmark of every family, by name."""

from __future__ import annotations

from orchestrator.families import broadcast, p2p
from orchestrator.families.base import Benchmark, Figure, Metric, Parameter, Point, Value

__all__ = ["BENCHMARKS", "Benchmark", "Figure", "Metric", "Parameter", "Point", "Value"]

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark for family in (p2p, broadcast) for benchmark in family.BENCHMARKS
}
