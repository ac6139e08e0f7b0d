"""Plans: ids that name a result, an order that a seed gives again, and warnings before time is spent."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator import plan
from tests.unit.test_manifest import HEAD, USE

TWO_CELLS = f"{USE}    sweep: {{matrix: {{message_bytes: [1, 8], exchanges: [1, 2]}}}}\n"


def ids(made):
    return [cell.id for cell in made.cells]


def test_ids_are_the_same_whenever_and_wherever_they_are_made(planned):
    """Recorded once; a change of the id's making would orphan every result there is."""
    assert ids(planned(USE)) == ["c2c8ae2db07d"]


def test_the_order_in_which_a_manifest_names_parameters_does_not_matter(planned):
    one = f"{USE}    parameters: {{exchanges: 5, message_bytes: 1}}"
    other = f"{USE}    parameters: {{message_bytes: 1, exchanges: 5}}"
    assert ids(planned(one)) == ids(planned(other))


@pytest.mark.parametrize(
    "rest",
    [
        *["launches: 9", "title: t", "description: d", "timeout: 5s", "seed: 5", "analysis: []", "figures: []"],
        *["scales: {smoke: {launches: 1}}", "testbed: {nodes: 2}", "    parameters: {pairs: 1}"],
    ],
)
def test_what_cannot_change_a_result_does_not_change_the_id(rest, planned):
    assert ids(planned(USE)) == ids(planned(f"{USE}{rest}"))


@pytest.mark.parametrize(
    "rest",
    [
        *["    parameters: {exchanges: 5}", "    parameters: {message_bytes: 9}", "    label: other"],
        *["repetitions: 9", "warmup: 9", "testbed: {transport: tcp}", "testbed: {shared_memory: 64MiB}"],
        *["testbed: {resources: {cpus: 1}}", "testbed: {resources: {memory: 1GiB}}"],
        *["testbed: {nodes: 1, ranks_per_node: 2}", "    sweep: {matrix: {message_bytes: [8, 9]}}"],
    ],
)
def test_what_can_change_a_result_changes_the_id(rest, planned):
    assert set(ids(planned(USE))).isdisjoint(ids(planned(f"{USE}{rest}")))


@pytest.mark.parametrize("other", [{"identity": "build-2"}, {"backend": "docker"}])
def test_another_build_or_backend_is_another_cell(other, planned):
    assert set(ids(planned(USE))).isdisjoint(ids(planned(USE, **other)))


def test_cores_change_a_cell_only_through_the_transport_they_call_for(planned):
    assert ids(planned(USE, cores=2)) == ids(planned(USE, cores=64)) != ids(planned(USE, cores=1))


def test_ids_of_a_plan_are_all_different(planned):
    again = (
        f"{TWO_CELLS}  - benchmark: p2p.latency\n    label: again\n    parameters: {{exchanges: 1, message_bytes: 1}}"
    )
    found = ids(planned(again))
    assert len(found) == len(set(found)) == 3


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(seed=st.integers(0, 2**63 - 1), launches=st.integers(1, 6))
def test_the_order_is_round_after_round_of_every_cell(seed, launches, planned):
    made = planned(f"{TWO_CELLS}launches: {launches}", seed=seed)
    count = len(made.cells)
    rounds = [made.order[start : start + count] for start in range(0, len(made.order), count)]
    assert launches == len(rounds)
    for number, one in enumerate(rounds):
        assert [(index, number) for index in range(count)] == sorted(one)
    assert made.order == planned(f"{TWO_CELLS}launches: {launches}", seed=seed).order


def test_another_seed_gives_another_order(planned):
    assert len({planned(f"{TWO_CELLS}launches: 20", seed=seed).order for seed in range(5)}) > 1


def test_values_that_a_program_loops_over_share_a_cell(planned):
    cells = planned(TWO_CELLS).cells
    assert [(c.parameters["message_bytes"], c.parameters["exchanges"]) for c in cells] == [((1, 8), 1), ((1, 8), 2)]


def test_exclude_takes_single_values_out_of_a_loop(planned):
    text = f"{TWO_CELLS}".replace("}}\n", "}, exclude: [{where: exchanges == 2 and message_bytes == 8}]}\n")
    assert [cell.parameters["message_bytes"] for cell in planned(text).cells] == [(1, 8), (1,)]


@pytest.mark.parametrize(
    ("kept", "expression"),
    [
        ({0, 1}, "8 in message_bytes"),
        ({1}, "exchanges == 2"),
        ({0, 1}, "label == 'latency' and benchmark == 'p2p.latency' and nodes == 2 and ranks == 2"),
        (set(), "ranks > 2"),
    ],
)
def test_only_keeps_the_launches_of_matching_cells_and_all_cells(kept, expression, planned):
    made = planned(TWO_CELLS)
    some = plan.only(made, expression)
    assert kept == {index for index, _ in some.order}
    assert tuple(step for step in made.order if step[0] in kept) == some.order
    assert made.cells == some.cells


def test_only_passes_over_cells_that_lack_the_name(planned):
    both = f"{USE}  - benchmark: p2p.bandwidth\n"
    made = planned(both)
    assert [made.cells[i].label for i in {i for i, _ in plan.only(made, "window > 0").order}] == ["bandwidth"]


@pytest.mark.parametrize(
    ("expression", "because"),
    [
        ("windw == 1", "unknown name 'windw' in 'windw == 1'; allowed: benchmark, exchanges, label, message_bytes"),
        ("exchanges ==", "is not an expression"),
        ("message_bytes > 1", "cannot be evaluated"),
    ],
)
def test_only_refuses_what_makes_no_sense(expression, because, planned):
    with pytest.raises(ValueError, match=because):
        plan.only(planned(USE), expression)


def test_a_stored_plan_is_read_back_as_it_was(planned):
    made = planned(f"{TWO_CELLS}launches: 3")
    assert made == plan.from_json(json.loads(json.dumps(plan.to_json(made))))


def test_more_ranks_than_cores_are_warned_of(planned):
    crowded = "oversubscribed: 2 ranks share 1 cores"
    assert planned(f"{USE}launches: 6", cores=1).warnings[0].startswith(crowded)
    assert planned(f"{USE}launches: 6", cores=2).warnings == ()


@pytest.mark.parametrize(("launches", "warned"), [(1, True), (5, True), (6, False)])
def test_too_few_launches_for_an_interval_are_warned_of(launches, warned, planned):
    warnings = planned(f"{USE}launches: {launches}").warnings
    assert warned is any("for a 95 % interval of the median" in warning for warning in warnings)


def test_limits_that_a_backend_does_not_set_are_warned_of(planned):
    limited = f"{USE}launches: 6\ntestbed: {{resources: {{cpus: 1}}}}"
    assert "the local backend sets no limits" in planned(limited).warnings[0]
    assert planned(limited, backend="docker").warnings == ()


def test_the_testbed_is_as_large_as_the_largest_cell(planned):
    rest = "    sweep: {zip: {nodes: [2, 4], pairs: [1, 4], ranks_per_node: [1, 2]}}"
    made = planned(f"{USE}{rest}")
    assert (made.nodes, made.ranks_per_node) == (4, 2)
    assert [cell.ranks for cell in made.cells] == [2, 8]


def test_more_launches_are_forecast_to_take_longer(planned):
    one, ten = (planned(f"{USE}launches: {launches}").estimated_s for launches in (1, 10))
    assert 0 < one < ten == pytest.approx(10 * one)


def test_a_cell_shows_its_parameters_in_a_line(planned):
    (cell,) = planned(f"{USE}    sweep: {{matrix: {{message_bytes: [1, 8]}}}}").cells
    assert cell.shown_parameters() == "exchanges=100 message_bytes=2 values pairs=1 ranks=2"
    one = replace(cell, parameters={"message_bytes": (8,)})
    assert one.shown_parameters() == "message_bytes=8 ranks=2"


def test_several_benchmarks_make_cells_in_the_order_of_the_manifest(planned):
    text = f"{HEAD}benchmarks: [{{benchmark: p2p.message_rate}}, {{benchmark: p2p.latency}}]"
    assert [cell.label for cell in planned(text).cells] == ["message_rate", "latency"]
