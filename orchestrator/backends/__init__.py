"""The backends, by name. Imported only when asked for: a client library is slow to load."""

from __future__ import annotations

import contextlib

from orchestrator.backends.base import Backend, Found, Say, Testbed
from orchestrator.errors import MissingPiece, UsageError
from orchestrator.owner import INTERACTIVE

NAMES = ("local", "docker")


def backend(name: str) -> Backend:
    """The backend of that name."""
    if name == "local":
        from orchestrator.backends.local import LocalBackend

        return LocalBackend()
    if name == "docker":
        from orchestrator.backends.docker import DockerBackend

        return DockerBackend()
    raise UsageError(f"unknown backend {name!r}; allowed: auto, {', '.join(NAMES)}")


def choose(name: str, say: Say) -> Backend:
    """The backend of that name; `auto` is docker where it answers and its image can be had, else local. Says why."""
    if name != "auto":
        return backend(name)
    docker = backend("docker")
    missing = [check for check in docker.checks() if check.required and not check.ok]
    if missing:
        say(f"backend local, because docker lacks {missing[0].name} ({missing[0].seen})")
        return backend("local")
    try:
        build = docker.build(say)
    except MissingPiece as error:
        say(f"backend local, because docker has no node image: {error}")
        return backend("local")
    say(f"backend docker: the engine answers and has {build.description}")
    return docker


def everything() -> list[Found]:
    """What mpibed has left or runs on any backend that answers."""
    found = []
    for name in NAMES:
        with contextlib.suppress(MissingPiece):
            found += backend(name).find()
    return found


def testbed_of(run: str | None) -> tuple[Found, Testbed]:
    """The testbed of that run id; without one, the only one that `up` made: those of runs are not to be disturbed."""
    there = [found for found in everything() if found.run == run or (run is None and found.owner == INTERACTIVE)]
    runs = sorted({found.run for found in there})
    if not runs:
        raise UsageError(f"there is no testbed{f' {run!r}' if run else ''}; `mpibed up MANIFEST` makes one")
    if len(runs) > 1:
        raise UsageError(f"there are several testbeds: {', '.join(runs)}; name one")
    return there[0], backend(there[0].backend).attach(there[0].run)
