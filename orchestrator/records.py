"""A run's folder: the plan, one JSON document per launch as it came, one per session, and who may write.

    results/<experiment>/<run>/
      manifest.yaml  reference.csv  plan.json  raw/<cell>/<launch>.<attempt>.json  raw/sessions/<n>.json

A document is written under a temporary name, synced and renamed, so it is there whole or not at all. Nothing is ever
overwritten: a launch that failed and is tried again gets a new attempt.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.errors import MpibedError, UsageError

SCHEMA = 1


def now() -> str:
    """ISO 8601, UTC, to the millisecond."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_run_id() -> str:
    """Sorts by time, and two runs of the same second differ: 20260131-120000-3fa9."""
    return f"{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


class RunFolder:
    """One run's documents. Reading needs no lock; writing goes through `locked`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def run(self) -> str:
        return self.path.name

    @classmethod
    def create(cls, results: Path, experiment: str, manifest: Path, reference: Path | None = None) -> RunFolder:
        """A new run's folder with the manifest and its reference as written; UsageError when it cannot be made."""
        folder = cls(results / experiment / new_run_id())
        with writing(folder.path):
            (folder.path / "raw" / "sessions").mkdir(parents=True)
            (folder.path / "manifest.yaml").write_bytes(manifest.read_bytes())
            if reference is not None:
                (folder.path / "reference.csv").write_bytes(reference.read_bytes())
        return folder

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only writer; UsageError when another mpibed is. The lock goes with the process, however it ends."""
        with contextlib.ExitStack() as stack:
            with writing(self.path):
                handle = stack.enter_context((self.path / ".lock").open("w"))
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UsageError(
                    f"another mpibed is writing {self.path}; wait for it, or start a run of your own with --fresh"
                ) from error
            yield

    def is_being_written(self) -> bool:
        try:
            with self.locked():
                return False
        except UsageError:
            return True
        except MpibedError:
            return False

    def store_plan(self, document: dict[str, Any]) -> None:
        _write(self.path / "plan.json", document)

    def plan(self) -> dict[str, Any]:
        """UsageError when there is none, as in a folder that is no run's."""
        path = self.path / "plan.json"
        if not path.is_file():
            raise UsageError(f"{self.path} holds no plan.json, so it is not a run; name a run's folder")
        return _read(path)

    def store_session(self, document: dict[str, Any]) -> int:
        """The session's number, from 1."""
        number = len(list((self.path / "raw" / "sessions").glob("*.json"))) + 1
        _write(self.path / "raw" / "sessions" / f"{number}.json", document)
        return number

    def sessions(self) -> list[dict[str, Any]]:
        paths = sorted((self.path / "raw" / "sessions").glob("*.json"), key=lambda path: int(path.stem))
        return [_read(path) for path in paths]

    def next_attempt(self, cell: str, launch: int) -> int:
        return len(list((self.path / "raw" / cell).glob(f"{launch:04d}.*.json"))) + 1

    def store_launch(self, record: dict[str, Any]) -> None:
        """The record under its cell, launch and attempt."""
        path = self.path / "raw" / record["cell"]["id"] / f"{record['launch']:04d}.{record['attempt']}.json"
        _write(path, record)

    def launches(self) -> Iterator[dict[str, Any]]:
        """Every launch record, in the order of cells and launches."""
        for path in sorted((self.path / "raw").glob("*/[0-9]*.[0-9]*.json")):
            if path.parent.name != "sessions":
                yield _read(path)

    def finished(self) -> set[tuple[str, int]]:
        """The (cell, launch) pairs that have a record with status ok."""
        return {(record["cell"]["id"], record["launch"]) for record in self.launches() if record["status"] == "ok"}

    def point_latest_here(self) -> None:
        """`latest` beside this run leads to it; replaced in one step, so it always leads somewhere."""
        link = self.path.parent / f".latest-{self.run}"
        with writing(link):
            link.unlink(missing_ok=True)
            link.symlink_to(self.run)
            link.replace(self.path.parent / "latest")


def runs(results: Path, experiment: str) -> list[RunFolder]:
    """The runs of an experiment, newest first."""
    parent = results / experiment
    paths = sorted(parent.glob("*/plan.json"), reverse=True) if parent.is_dir() else []
    return [RunFolder(path.parent) for path in paths if not path.parent.is_symlink()]


def find(results: Path, run: str) -> RunFolder:
    """A run by its folder or its id; UsageError when there is none."""
    if Path(run).is_dir():
        return RunFolder(Path(run).resolve())
    matches = [path for path in results.glob(f"*/{run}") if path.is_dir() and "/" not in run]
    if len(matches) != 1:
        raise UsageError(f"no run {run!r}: neither a folder nor the id of a run under {results}")
    return RunFolder(matches[0].resolve())


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in a user's words that the path, or something in it, cannot be written."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise MpibedError(
                f"no space left to write {path}; free some, then run again: finished launches are kept"
            ) from error
        raise MpibedError(
            f"{path} cannot be written ({error.strerror}); make it writable or give another folder with --results"
        ) from error


def _write(path: Path, document: dict[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.part")
    with writing(path):
        try:
            path.parent.mkdir(exist_ok=True)
            with temporary.open("w", encoding="utf-8") as handle:
                json.dump(document, handle, separators=(",", ":"), allow_nan=False)
                handle.flush()
                os.fsync(handle.fileno())
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise


def _read(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MpibedError(f"{path} is damaged ({error}); put it back, or remove it to have it run again") from error
    return document
