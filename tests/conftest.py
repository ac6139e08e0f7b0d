"""What tests share: pieces a machine may lack, manifests in a line, and a small plan to make records of."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator import experiment, manifest, plan, project
from orchestrator.backends.local import RUN_VARIABLE, LocalBackend
from orchestrator.errors import MpibedError
from orchestrator.experiment import Experiment
from orchestrator.plan import Plan

QUICKSTART = project.EXPERIMENTS / "quickstart.yaml"
MPIBED = Path(sys.executable).parent / "mpibed"  # the command, as a user has it


def require(piece: str, reason: str | None) -> None:
    """Go on when there is no reason against it. Otherwise skip; or fail, if MPIBED_REQUIRE lists the piece."""
    if reason is None:
        return
    if piece in re.split(r"[,\s]+", os.environ.get("MPIBED_REQUIRE", "")):
        pytest.fail(f"MPIBED_REQUIRE asks for {piece}, but {reason}", pytrace=False)
    pytest.skip(f"{piece}: {reason}")


def processes_of(run: str) -> list[int]:
    """Living processes that a testbed of that run started on this machine, wherever they went."""
    mark, found = f"{RUN_VARIABLE}={run}".encode(), []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in environ.read_bytes().split(b"\0"):
                found.append(int(environ.parent.name))
    return found


@pytest.fixture(scope="session")
def local() -> None:
    """MPICH and the node programs are there."""
    missing = [check for check in LocalBackend().checks() if not check.ok]
    require("local", "; ".join(f"no {check.name}: {check.remedy}" for check in missing) or None)


@pytest.fixture(scope="session")
def docker_backend():
    """A DockerBackend whose engine answers and whose node image is built."""
    from orchestrator.backends.docker import DockerBackend

    backend = DockerBackend()
    missing = [check for check in backend.checks() if check.required and not check.ok]
    require("docker", "; ".join(f"no {check.name}: {check.seen}" for check in missing) or None)
    try:
        backend.build(lambda _: None)
    except MpibedError as error:
        require("docker", f"the node image cannot be built: {error}")
    return backend


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Puts a manifest's text into a file."""

    def into_file(text: str) -> Path:
        path = tmp_path / "m.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return into_file


@pytest.fixture
def resolved(write: Callable[[str], Path]) -> Callable[..., Experiment]:
    """A manifest's text as an experiment."""

    def resolve(text: str, scale: manifest.ScaleName = "laptop") -> Experiment:
        return experiment.resolve(manifest.load(write(text), scale))

    return resolve


@pytest.fixture
def planned(resolved: Callable[..., Experiment]) -> Callable[..., Plan]:
    """A manifest's text as a plan; keywords replace what `plan.make` is told."""

    def make(text: str, **other: object) -> Plan:
        settings = {"backend": "local", "identity": "build-1", "seed": 7, "cores": 2} | other
        return plan.make(resolved(text), **settings)

    return make
