"""How the engine's stream of bytes becomes lines; no engine is asked."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from docker.errors import APIError
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.backends.base import Stream
from orchestrator.backends.docker_process import deliver_lines, frames, reason


def framed(*pieces: tuple[int, bytes]) -> io.BytesIO:
    return io.BytesIO(b"".join(bytes([stream, 0, 0, 0]) + len(data).to_bytes(4) + data for stream, data in pieces))


def delivered(source: io.BytesIO) -> list[tuple[Stream, str]]:
    lines: list[tuple[Stream, str]] = []
    deliver_lines(frames(source), lambda stream, line: lines.append((stream, line)))
    return lines


@given(st.binary(), st.lists(st.integers(0, 200)))
def test_lines_do_not_depend_on_where_the_output_was_cut(output: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(output)) for cut in cuts), len(output)]
    pieces = [(1, output[begin:end]) for begin, end in pairwise(edges)]
    expected = output.split(b"\n")
    if not expected[-1]:
        expected.pop()  # the output ended with the end of a line, or was empty
    assert [("stdout", line.decode(errors="replace")) for line in expected] == delivered(framed(*pieces))


def test_the_two_streams_do_not_mix() -> None:
    source = framed((1, b"out "), (2, b"err "), (1, b"one\nout"), (2, b"one\n"), (1, b" two"))
    assert delivered(source) == [("stdout", "out one"), ("stderr", "err one"), ("stdout", "out two")]


def test_a_connection_that_breaks_within_a_frame_gives_what_had_come() -> None:
    source = io.BytesIO(framed((1, b"whole\n"), (1, b"broken off here")).getvalue()[:-5])
    assert delivered(source) == [("stdout", "whole"), ("stdout", "broken off")]


def test_the_reason_of_a_refusal_is_the_engines_own_words() -> None:
    assert reason(APIError("409 Client Error", explanation="name in use")) == "name in use"


def test_the_reason_of_a_lost_connection_is_the_first_one() -> None:
    with pytest.raises(RuntimeError) as caught:
        try:
            raise ConnectionRefusedError(111, "Connection refused")
        except OSError as error:
            raise RuntimeError("('Connection aborted.', ...)") from error
    assert reason(caught.value) == "Connection refused"
