"""Testbeds made of plain processes: one node, this machine, which plays all nodes of a manifest.

What is created is a folder per testbed under the user's cache directory, with its labels in it, and processes whose
environment carries the run's id. Both are what `find` and `remove` go by.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import platformdirs

from orchestrator import project
from orchestrator.backends.base import (
    LABEL_OWNER,
    LABEL_RUN,
    Build,
    Check,
    Found,
    Install,
    Node,
    OnLine,
    Say,
    Stream,
    TestbedSpec,
)
from orchestrator.digest import sha256_of_files
from orchestrator.errors import MissingPiece, TestbedLost, UsageError

RUN_VARIABLE = "MPIBED_RUN"
_LABELS = "labels.json"


def _testbeds() -> Path:
    return platformdirs.user_cache_path("mpibed") / "local"


class LocalProcess:
    """A child process in a session of its own; two threads hand its output on."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], folder: Path, on_line: OnLine) -> None:
        try:
            self._child = subprocess.Popen(
                list(argv),
                env={**os.environ, **env},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise TestbedLost(f"cannot start {argv[0]}: {error.strerror}") from error
        self._pidfd = os.pidfd_open(self._child.pid)
        weakref.finalize(self, os.close, self._pidfd)
        assert self._child.stdout and self._child.stderr
        pipes: dict[Stream, IO[bytes]] = {"stdout": self._child.stdout, "stderr": self._child.stderr}
        self._readers = [self._reader(stream, pipe, on_line) for stream, pipe in pipes.items()]

    @staticmethod
    def _reader(stream: Stream, pipe: IO[bytes], on_line: OnLine) -> threading.Thread:
        def read() -> None:
            with pipe:
                for line in pipe:
                    on_line(stream, line.decode("utf-8", "replace").rstrip("\n"))

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread

    def wait(self, timeout_s: float | None = None) -> int | None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        # Popen.wait with a timeout polls in steps of up to 50 ms, as long as a short launch; a pidfd wakes at once.
        if not select.select([self._pidfd], [], [], _left(deadline))[0]:
            return None
        status = self._child.wait()
        for reader in self._readers:  # a grandchild may hold the pipe open after the child has gone
            reader.join(_left(deadline))
            if reader.is_alive():
                return None
        return status


class LocalTestbed:
    """This machine as one node with a slot for every rank."""

    def __init__(self, run: str, slots: int) -> None:
        self.run = run
        self.folder = _testbeds() / run
        self.nodes = (Node("localhost", slots),)
        self.install = Install(
            programs=str(project.PROGRAMS),
            mpi_bin=str(project.MPI_PREFIX / "bin"),
            mpi_lib=str(project.MPI_PREFIX / "lib"),
            interface="lo",
            shared=str(self.folder / "shared"),
        )

    def start(self, node: Node, argv: Sequence[str], env: Mapping[str, str], on_line: OnLine) -> LocalProcess:
        return LocalProcess(argv, {**env, RUN_VARIABLE: self.run}, self.folder, on_line)

    def put(self, source: Path) -> str:
        return str(source.resolve())

    def facts(self, node: Node) -> dict[str, str]:
        return {}

    def close(self) -> None:
        LocalBackend().remove(self.run)


class LocalBackend:
    """Processes on this machine through the MPICH of the virtual environment."""

    name = "local"

    def checks(self) -> list[Check]:
        mpiexec = project.MPI_PREFIX / "bin" / "mpiexec"
        built = sorted(path.name for path in project.PROGRAMS.glob("*")) if project.PROGRAMS.is_dir() else []
        return [
            Check("mpiexec", mpiexec.exists(), str(mpiexec), "run `make setup`"),
            Check("node programs", bool(built), f"{len(built)} in {project.PROGRAMS}", "run `make build`"),
        ]

    def build(self, say: Say) -> Build:
        for check in self.checks():
            if not check.ok:
                raise MissingPiece(f"local backend: no {check.name} ({check.seen}); {check.remedy}")
        files = [*project.PROGRAMS.iterdir(), *(project.MPI_PREFIX / "lib").glob("libmpi.so*")]
        return Build(f"local:{sha256_of_files(files)[:16]}", f"{len(files)} files: node programs and MPICH")

    def up(self, spec: TestbedSpec, labels: Mapping[str, str]) -> LocalTestbed:
        testbed = LocalTestbed(labels[LABEL_RUN], spec.nodes * spec.ranks_per_node)
        try:
            testbed.folder.mkdir(parents=True)
        except FileExistsError as error:
            raise UsageError(f"a testbed {testbed.run!r} exists already; `mpibed down {testbed.run}`") from error
        if spec.shared_directory:
            Path(testbed.install.shared).mkdir()
        stored = {**labels, "mpibed.slots": str(testbed.nodes[0].slots)}
        (testbed.folder / _LABELS).write_text(json.dumps(stored), encoding="utf-8")
        return testbed

    def attach(self, run: str) -> LocalTestbed:
        labels = self._labels(_testbeds() / run)
        if not labels:
            raise UsageError(f"no local testbed {run!r}; `mpibed up MANIFEST --backend local` makes one")
        return LocalTestbed(run, int(labels["mpibed.slots"]))

    def find(self) -> list[Found]:
        folders = sorted(_testbeds().iterdir()) if _testbeds().is_dir() else []
        return [
            Found(folder.name, self._labels(folder).get(LABEL_OWNER, ""), self.name, f"folder and {count} processes")
            for folder in folders
            for count in [len(_processes_of(folder.name))]
        ]

    def remove(self, run: str) -> list[str]:
        removed = []
        while pids := _processes_of(run):  # again, for what was forked meanwhile
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    removed.append(f"process {pid}")
            time.sleep(0.01)
        folder = _testbeds() / run
        if folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(f"folder {folder}")
        return list(dict.fromkeys(removed))  # a process may be seen again before it is gone

    @staticmethod
    def _labels(folder: Path) -> dict[str, str]:
        try:
            labels: dict[str, str] = json.loads((folder / _LABELS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return labels


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _processes_of(run: str) -> list[int]:
    """Processes that a testbed of that run started, wherever they went; a zombie has no environment."""
    wanted = f"{RUN_VARIABLE}={run}".encode()
    found = []
    for entry in Path("/proc").iterdir() if sys.platform == "linux" else ():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found
