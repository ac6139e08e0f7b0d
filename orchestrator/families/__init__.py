"""The registry: every benchmark of every family, by name."""

from __future__ import annotations

from orchestrator.families import broadcast, mcapps, mpiio, npb, overlap, p2p
from orchestrator.families.base import Benchmark, Figure, Metric, Parameter, Point, Value

__all__ = ["BENCHMARKS", "Benchmark", "Figure", "Metric", "Parameter", "Point", "Value"]

_FAMILIES = (p2p, overlap, mpiio, mcapps, broadcast, npb)

BENCHMARKS: dict[str, Benchmark] = {one.name: one for family in _FAMILIES for one in family.BENCHMARKS}
