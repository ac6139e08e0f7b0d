"""A process in a container: its output as lines, and how it ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, cast

from docker.errors import APIError, DockerException
from requests import RequestException
from urllib3.exceptions import HTTPError

from orchestrator.errors import TestbedLost

if TYPE_CHECKING:
    import requests
    from docker import APIClient

    from orchestrator.backends.base import Node, OnLine, Stream

_KILLED = 137


class DockerProcess:
    """A process in a container. `wait` raises TestbedLost when the container or the engine ended before it did."""

    def __init__(
        self, api: APIClient, node: Node, container: str, process: str, output: requests.Response, on_line: OnLine
    ) -> None:
        self._api = api
        self._node = node
        self._container = container
        self._process = process
        self._output = output
        self._on_line = on_line
        self._status: int | None = None
        self._error: BaseException | None = None
        self._reader = threading.Thread(target=self._follow, name=f"output of {node.name}", daemon=True)
        self._reader.start()

    def wait(self, timeout_s: float | None = None) -> int | None:
        self._reader.join(timeout_s)
        if self._error is not None:
            raise self._error
        return self._status

    def _follow(self) -> None:
        try:
            with self._output:
                deliver_lines(frames(cast(IO[bytes], self._output.raw)), self._on_line)
            self._status = self._ended()
        except (DockerException, RequestException, HTTPError, OSError) as error:
            self._error = TestbedLost(f"lost node {self._node.name} while a process ran there: {reason(error)}")
        except BaseException as error:  # from on_line, the caller's own; it belongs to whoever waits
            self._error = error

    def _ended(self) -> int:
        """The exit status, which the engine may know a moment later than the end of the output."""
        pause_s = 0.002
        while (seen := self._api.exec_inspect(self._process))["Running"]:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.1)
        status = int(seen["ExitCode"])
        # A dying container kills its processes first and is seen to be dead a moment after.
        deadline = time.monotonic() + (0.5 if status == _KILLED else 0)
        while status == _KILLED:
            if not self._api.inspect_container(self._container)["State"]["Running"]:
                raise TestbedLost(f"node {self._node.name} stopped while a process ran there")
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        return status


def frames(source: IO[bytes]) -> Iterator[tuple[Stream, bytes]]:
    """The engine's interleaving of two streams: each piece has a header of stream number (1 byte), 3 bytes of
    nothing, and length (4 bytes, big endian)."""
    while len(header := source.read(8)) == 8:
        yield "stderr" if header[0] == 2 else "stdout", source.read(int.from_bytes(header[4:]))


def deliver_lines(pieces: Iterator[tuple[Stream, bytes]], on_line: OnLine) -> None:
    """Whole lines from pieces cut anywhere; a last line without its end counts too."""
    begun: dict[Stream, list[bytes]] = {"stdout": [], "stderr": []}  # joined once: a long line has many pieces
    for stream, piece in pieces:
        *ends, rest = piece.split(b"\n")
        for end in ends:
            on_line(stream, b"".join([*begun[stream], end]).decode(errors="replace"))
            begun[stream].clear()
        if rest:
            begun[stream].append(rest)
    for stream, parts in begun.items():
        if parts:
            on_line(stream, b"".join(parts).decode(errors="replace"))


def reason(error: BaseException) -> str:
    """Why the engine could not be asked, or what it answered, without the layers between it and us."""
    if isinstance(error, APIError):
        return str(error.explanation)
    first = error
    while first.__context__ is not None:
        first = first.__context__
    return (isinstance(first, OSError) and first.strerror) or str(error)
