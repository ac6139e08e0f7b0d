"""What a program wrote: trusted when it is what the cell asked for, else refused with the reason."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator import observations
from tests.unit.test_manifest import USE

SIZES = (1, 8)
REPETITIONS = 2


@pytest.fixture
def cell(planned):
    text = f"{USE}    sweep: {{matrix: {{message_bytes: [1, 8]}}}}\nrepetitions: {REPETITIONS}\nwarmup: 1\n"
    return planned(text).cells[0]


def observed(**other: Any) -> dict[str, Any]:
    return {
        "metric": "one_way_latency", "value": 1e-6, "unit": "s", "phase": "measure", "repetition": 0, "rank": "all",
        "operations": 100, "message_bytes": 1,
    } | other  # fmt: skip


PROGRAM = {"program": {"name": "p2p_latency", "ranks": 2, "clock": "MPI_Wtime"}}
OK = {"status": "ok", "check": "payload verified"}
WARMUP = [observed(phase="warmup", message_bytes=size) for size in SIZES]
MEASURED = [observed(message_bytes=size, repetition=number) for size in SIZES for number in range(REPETITIONS)]


def reading(cell, *documents):
    lines = [one if isinstance(one, str) else json.dumps(one) for one in documents]
    return observations.read(lines, cell)


def test_what_was_asked_for_is_trusted_and_kept_as_it_came(cell):
    found = reading(cell, "a note", PROGRAM, *WARMUP, *MEASURED, OK, "[1]")
    assert (found.reason, found.check) == ("", "payload verified")
    assert [*WARMUP, *MEASURED] == found.observations
    assert PROGRAM["program"] == found.program
    assert found.other == ["a note", "[1]"]


def test_the_order_of_observations_does_not_matter(cell):
    assert reading(cell, OK, *reversed(MEASURED), *WARMUP, PROGRAM).reason == ""


def test_values_of_single_ranks_may_come_along(cell):
    assert reading(cell, *MEASURED, *[one | {"rank": 1} for one in MEASURED], OK).reason == ""


@pytest.mark.parametrize(
    ("reason", "documents"),
    [
        ("the program closed 0 times, not once", [*MEASURED]),
        ("the program closed 2 times, not once", [*MEASURED, OK, OK]),
        ("payload differs", [*MEASURED, {"status": "failed", "check": "payload", "error": "payload differs"}]),
        ("the program's own check failed", [*MEASURED, {"status": "failed"}]),
        ("the program's own check failed", [*MEASURED, {"status": None}]),
        ("0 of 2 repetitions of one_way_latency at message_bytes=1 are there", [OK]),
        ("1 of 2 repetitions of one_way_latency at message_bytes=8 are there", [*MEASURED[:-1], OK]),
        (
            "2 of 2 repetitions of one_way_latency at message_bytes=8 are there, in 3 rows",
            [*MEASURED, MEASURED[-1], OK],
        ),
        ("1 of 2 repetitions of one_way_latency at message_bytes=1", [*[MEASURED[0]] * 2, *MEASURED[2:], OK]),
        ("1 of 2 repetitions", [observed(repetition=7), *MEASURED[1:], OK]),
        ("0 of 2 repetitions", [*[one | {"rank": 0} for one in MEASURED], OK]),
        ("0 of 2 repetitions", [*[one | {"phase": "warmup"} for one in MEASURED], OK]),
        (
            "observation 5 has message_bytes=2, which the cell did not ask for",
            [*MEASURED, observed(message_bytes=2), OK],
        ),
        ("observation 1 has message_bytes=True, which", [observed(message_bytes=True), *MEASURED, OK]),
        ("observation 1 has message_bytes=[1], which", [observed(message_bytes=[1]), *MEASURED, OK]),
        ("observation 1 has message_bytes=None, which", [{**observed(), "message_bytes": None}, *MEASURED, OK]),
    ],
)
def test_what_was_not_asked_for_is_refused(reason, documents, cell):
    assert reading(cell, *documents).reason.startswith(reason)


@pytest.mark.parametrize(
    ("reason", "other"),
    [
        ("has unit 'us', one_way_latency is in 's'", {"unit": "us"}),
        ("has unit None, one_way_latency is in 's'", {"unit": None}),
        ("is of 'bandwidth', which p2p.latency does not declare", {"metric": "bandwidth"}),
        ("is of ['a'], which p2p.latency does not declare", {"metric": ["a"]}),
        ("has the value 'NaN', which is no number", {"value": math.nan}),
        ("has the value 'Infinity', which is no number", {"value": math.inf}),
        ("has the value '1', which is no number", {"value": "1"}),
        ("has the value None, which is no number", {"value": None}),
        ("has the value True, which is no number", {"value": True}),
        ("has the value 1000", {"value": 10**400}),
        ("has phase 'cooldown', which makes no sense", {"phase": "cooldown"}),
        ("has phase [], which makes no sense", {"phase": []}),
        ("has repetition '0', which makes no sense", {"repetition": "0"}),
        ("has repetition -1, which makes no sense", {"repetition": -1}),
        ("has rank -1, which makes no sense", {"rank": -1}),
        ("has rank {}, which makes no sense", {"rank": {}}),
        ("has operations 0.5, which makes no sense", {"operations": 0.5}),
        (f"has operations {1 << 63}, which makes no sense", {"operations": 1 << 63}),
    ],
)
def test_an_observation_out_of_form_is_refused(reason, other, cell):
    found = reading(cell, observed(**other), *MEASURED, OK).reason
    assert f"observation 1 {reason}" == found[: len(f"observation 1 {reason}")]


@pytest.mark.parametrize("name", observed().keys() - {"message_bytes"})
def test_an_observation_with_a_missing_part_is_refused(name, cell):
    one = observed()
    del one[name]
    assert f"observation 1 has no {name}" == reading(cell, one, *MEASURED, OK).reason


@pytest.mark.parametrize("value", ["1e999", "-1e999", "NaN", "-Infinity"])
def test_numbers_that_json_has_not_are_told_and_can_be_stored(value, cell):
    line = json.dumps(observed(value=0)).replace('"value": 0', f'"value": {value}')
    found = reading(cell, line, *MEASURED, OK)
    assert f"observation 1 has the value {value!r}, which is no number" == found.reason
    json.dumps(found.observations, allow_nan=False)


@pytest.mark.parametrize("line", ['{"program": 5}', "{}", "{", "[" * 10_000, "1" * 10_000, '{"a": ' * 10_000, "\0"])
def test_garbage_never_passes_for_a_program_line_or_a_result(line, cell):
    found = reading(cell, line, PROGRAM, *MEASURED, OK)
    assert PROGRAM["program"] == found.program
    assert [line] == found.other or found.reason


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
documents = st.dictionaries(st.sampled_from([*observed(), "status", "program", "check", "error"]), json_values)
lines = st.text() | st.builds(json.dumps, documents) | st.builds(lambda one: json.dumps(observed() | one), documents)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=st.lists(lines, max_size=6), closes=st.booleans())
def test_whatever_a_program_writes_is_read_and_can_be_stored(written, closes, cell):
    found = reading(cell, *written, *([OK] if closes else []))
    assert isinstance(found.reason, str)
    json.dumps([found.program, found.observations, found.other, found.check], allow_nan=False)
