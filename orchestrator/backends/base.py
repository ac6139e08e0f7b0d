"""The small roles a backend plays. One file per backend implements them; nothing else of mpibed knows which it is.

A backend makes testbeds. A testbed is a set of nodes on which processes can be started. What was created carries labels
(`mpibed.run`, `mpibed.owner`), which are the only state: anything left behind is found by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Stream = Literal["stdout", "stderr"]
OnLine = Callable[[Stream, str], None]
Say = Callable[[str], None]  # progress of long steps, one sentence each

LABEL_RUN = "mpibed.run"
LABEL_OWNER = "mpibed.owner"


@dataclass(frozen=True)
class TestbedSpec:
    """What the nodes of a testbed must be. None means no limit asked for."""

    __test__ = False

    nodes: int
    ranks_per_node: int
    cpus: float | None = None  # processors' worth of time per node
    memory_bytes: int | None = None  # per node
    shared_memory_bytes: int | None = None  # of /dev/shm, per node
    shared_directory: bool = False  # a folder that all nodes see


@dataclass(frozen=True)
class Node:
    """A place where ranks run. `slots` is how many."""

    name: str
    slots: int


@dataclass(frozen=True)
class Install:
    """Where things are inside a node."""

    programs: str  # folder of the benchmark programs
    mpi_bin: str  # folder of mpiexec and hydra_pmi_proxy
    mpi_lib: str  # folder of libmpi
    interface: str  # the network interface Hydra's control traffic uses
    shared: str  # folder that all nodes see, if the testbed was asked for one


@dataclass(frozen=True)
class Build:
    """What will run: `identity` changes whenever a program, MPI or the image does."""

    identity: str
    description: str


@dataclass(frozen=True)
class Check:
    """One line of `mpibed doctor`: a piece, whether it is there, what was seen, and how to get it."""

    name: str
    ok: bool
    seen: str
    remedy: str = ""
    required: bool = True  # False: something works without it


@dataclass(frozen=True)
class Found:
    """Something labelled that exists now: a testbed, whole or in part."""

    run: str
    owner: str
    backend: str
    what: str


class Process(Protocol):
    """A process in a node. Its output goes to the `on_line` it was started with, line by line, from another thread."""

    def wait(self, timeout_s: float | None = None) -> int | None:
        """The exit status once the process and its output have ended; None when the time is up first."""
        ...


class Executor(Protocol):
    """The one thing launching needs: start a process in a node."""

    def start(self, node: Node, argv: Sequence[str], env: Mapping[str, str], on_line: OnLine) -> Process:
        """Raises TestbedLost when the node or its engine is gone. `env` adds to the node's own environment."""
        ...


class Testbed(Executor, Protocol):
    """A running set of nodes. `close` removes everything it created; it may be called twice."""

    @property
    def nodes(self) -> tuple[Node, ...]: ...
    @property
    def install(self) -> Install: ...
    def put(self, source: Path) -> str:
        """Copy a file into every node, executable; its path there."""
        ...

    def facts(self, node: Node) -> dict[str, str]:
        """What only the backend knows of a node (image digest, limits); the rest is asked from inside."""
        ...

    def close(self) -> None: ...


class Backend(Protocol):
    """Makes, finds and removes testbeds."""

    name: str

    def checks(self) -> list[Check]:
        """What this backend needs of the machine. Never raises."""
        ...

    def build(self, say: Say) -> Build:
        """Make ready what nodes are made from; raises MissingPiece with the ways out."""
        ...

    def up(self, spec: TestbedSpec, labels: Mapping[str, str]) -> Testbed:
        """Create a testbed whose nodes are ready. What was created before a failure is removed before it is raised."""
        ...

    def attach(self, run: str) -> Testbed:
        """The testbed of that run id that exists already; UsageError when there is none."""
        ...

    def find(self) -> list[Found]:
        """Everything labelled by mpibed, whoever made it."""
        ...

    def remove(self, run: str) -> list[str]:
        """Remove everything labelled with that run id; a word per thing removed. Not an error when there is nothing."""
        ...
