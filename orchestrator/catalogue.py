"""What there is: benchmarks with their parameters and metrics, backends, fabrics, the manifests that come along."""

from __future__ import annotations

import dataclasses
from typing import Any

from orchestrator import backends, project
from orchestrator.families import BENCHMARKS


def contents() -> dict[str, Any]:
    """As plain data."""
    manifests = sorted(path for path in project.EXPERIMENTS.rglob("*.yaml") if "fabrics" not in path.parts)
    return {
        "benchmarks": [
            {
                "name": benchmark.name,
                "summary": benchmark.summary,
                "loops_over": benchmark.loops_over,
                "parameters": [dataclasses.asdict(parameter) for parameter in benchmark.parameters],
                "metrics": [dataclasses.asdict(metric) for metric in benchmark.metrics],
            }
            for benchmark in BENCHMARKS.values()
        ],
        "backends": list(backends.NAMES),
        "fabrics": ["none"],
        "manifests": [str(path.relative_to(project.ROOT)) for path in manifests],
    }
