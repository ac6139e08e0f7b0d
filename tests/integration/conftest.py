"""What integration tests share: the node programs, and testbeds of containers that are gone after the test."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator import project
from orchestrator.backends.base import LABEL_OWNER, LABEL_RUN, TestbedSpec
from orchestrator.backends.docker import DockerBackend, DockerTestbed
from orchestrator.errors import MpibedError

Up = Callable[..., DockerTestbed]


@pytest.fixture(scope="session")
def programs(local: None) -> Path:
    """The folder of the node programs, brought up to date."""
    _cmake("--build", project.PROGRAMS.parent)
    return project.PROGRAMS


@pytest.fixture(scope="session")
def sanitized(local: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same programs, built to stop at the first wrong access or undefined behaviour."""
    folder = tmp_path_factory.mktemp("sanitized")
    compiler = f"-DCMAKE_C_COMPILER={project.MPI_PREFIX / 'bin' / 'mpicc'}"
    _cmake("-S", project.NODE_SOURCES, "-B", folder, "-G", "Ninja", compiler, "-DMPIBED_SANITIZE=address,undefined")
    _cmake("--build", folder)
    return folder / "bin"


def _cmake(*words: str | Path) -> None:
    bin_ = project.MPI_PREFIX / "bin"
    env = {**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([bin_ / "cmake", *words], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


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
