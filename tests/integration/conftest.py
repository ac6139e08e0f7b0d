"""Testbeds of containers for tests: gone after the test, whatever happened in it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from orchestrator.backends.base import LABEL_OWNER, LABEL_RUN, TestbedSpec
from orchestrator.backends.docker import DockerBackend, DockerTestbed
from orchestrator.errors import MpibedError

Up = Callable[..., DockerTestbed]


@pytest.fixture
def run_id() -> str:
    return f"test-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def up(docker_backend: DockerBackend) -> Iterator[Up]:
    """Makes testbeds: `up(run, nodes, cpus=1, ...)`."""
    made: list[str] = []

    def make(run: str, nodes: int = 1, ranks_per_node: int = 1, **limits: float) -> DockerTestbed:
        made.append(run)
        spec = TestbedSpec(nodes, ranks_per_node, **limits)  # type: ignore[arg-type]
        return docker_backend.up(spec, {LABEL_RUN: run, LABEL_OWNER: "tests"})

    yield make
    for run in made:
        with suppress(MpibedError):
            docker_backend.remove(run)
