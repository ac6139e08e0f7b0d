"""The model of the broadcast units gives every number the paper prints, and keeps the laws that its rules imply."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator import project
from orchestrator.families import broadcast as family
from orchestrator.models import broadcast_cycles, broadcast_formula, mpi_unit, trees
from orchestrator.models.broadcast_scenario import UNITS, Scenario
from orchestrator.models.broadcast_simulation import WrongResult, simulate
from orchestrator.models.mpi_unit import Kind, Message, Steps, Timing, Unit

REFERENCE = project.EXPERIMENTS / "papers" / "broadcast" / "reference"
MODEL, ON_NODES = family.BENCHMARKS
ROUNDING = 0.005 + 1e-9  # of a ratio printed with two digits


def printed(name: str) -> list[dict[str, str]]:
    with (REFERENCE / name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def scenario_of(row: dict[str, str]) -> Scenario:
    names = ("processing_nodes", "message_bytes", "case", "interfering_bytes")
    return Scenario(*(int(row[name]) for name in names))


def speedup(scenario: Scenario) -> float:
    return simulate(scenario, "conventional") / simulate(scenario, "proposed")


@st.composite
def scenarios(draw: st.DrawFn, most_interferers: int = 1, spread: int = 0) -> Scenario:
    nodes = draw(st.integers(2, 40))
    case = draw(st.integers(1, nodes - 1))
    most = max(1, min(most_interferers, (nodes - case) // 2))
    late = st.lists(st.integers(0, spread), min_size=nodes - 1, max_size=nodes - 1)
    return Scenario(
        nodes=nodes,
        message_bytes=draw(st.integers(1, 600)),
        case=case,
        interfering_bytes=draw(st.integers(1, 3000)),
        interferers=draw(st.integers(1, most)),
        arrivals=tuple(draw(late)) if spread else (),
    )


def law(*strategies: st.SearchStrategy[object]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    return lambda test: settings(deadline=None)(given(*strategies)(test))


def contention(scenario: Scenario) -> int:
    """What ports may add to the cycles of turns: a word for each leaf."""
    return Timing().word_cycles * (scenario.nodes - 1)


def undisturbed(scenario: Scenario) -> Scenario:
    return replace(scenario, case=scenario.nodes - 1)


@pytest.mark.parametrize(("table", "cells"), [(1, 77), (2, 77), (3, 165), (4, 165)])
def test_every_speedup_of_tables_1_to_4_is_the_printed_one(table: int, cells: int) -> None:
    rows = printed(f"broadcast-table{table}.csv")
    missed = {
        (row["case"], row["message_bytes"]): (row["value"], found)
        for row in rows
        if abs((found := speedup(scenario_of(row))) - float(row["value"])) > ROUNDING
    }
    assert cells == len(rows)
    assert missed == {}


def test_every_cycle_count_of_table_5_is_the_printed_one() -> None:
    rows = printed("broadcast-cycles.csv")
    assert len(rows) == 88
    assert [int(row["value"]) for row in rows] == [simulate(scenario_of(row), row["mpi_unit"]) for row in rows]


def test_which_of_two_busy_nodes_sends_changes_nothing_in_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = property(lambda self: [(self.nodes - 1, self.case)] if self.case < self.nodes - 1 else [])
    monkeypatch.setattr(Scenario, "pairs", swapped)
    rows = printed("broadcast-cycles.csv")
    assert [int(row["value"]) for row in rows] == [simulate(scenario_of(row), row["mpi_unit"]) for row in rows]


@law(scenarios(), st.sampled_from(UNITS))
def test_the_simulation_and_the_formula_agree(scenario: Scenario, unit: str) -> None:
    simulated, formula = simulate(scenario, unit), broadcast_formula.cycles(scenario, unit)
    slack = 0 if broadcast_formula.is_exact(scenario, unit) else contention(scenario)
    assert formula <= simulated <= formula + slack


@law(scenarios(), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.sampled_from(UNITS))
def test_simulation_and_formula_agree_for_other_hardware(
    scenario: Scenario, word: int, issue: int, pairing: int, unit: str
) -> None:
    timing = Timing(word_bytes=8, word_cycles=word, issue_cycles=issue, pairing_cycles=pairing)
    if broadcast_formula.is_exact(scenario, unit, timing):
        assert broadcast_formula.cycles(scenario, unit, timing) == simulate(scenario, unit, timing)


@law(scenarios(most_interferers=20, spread=3000))
def test_serving_by_readiness_is_never_slower_than_in_order(scenario: Scenario) -> None:
    """In the sequential tree, where all turns are alike."""
    assert simulate(scenario, "proposed") <= simulate(scenario, "conventional") + contention(scenario)


@law(scenarios().map(undisturbed))
def test_without_interference_both_units_take_the_same_cycles(scenario: Scenario) -> None:
    assert simulate(scenario, "conventional") == simulate(scenario, "proposed")


@law(scenarios(), st.integers(0, 500), st.sampled_from(UNITS))
def test_a_longer_message_is_never_faster(scenario: Scenario, extra: int, unit: str) -> None:
    longer = replace(scenario, message_bytes=scenario.message_bytes + extra)
    assert simulate(scenario, unit) <= simulate(longer, unit) + contention(scenario)


@law(scenarios(), st.sampled_from(UNITS))
def test_interference_never_makes_a_broadcast_faster(scenario: Scenario, unit: str) -> None:
    assert simulate(undisturbed(scenario), unit) <= simulate(scenario, unit) + contention(scenario)


@pytest.mark.parametrize("levels", [1, 3, 4, 7, 10])
def test_cycles_grow_with_the_number_of_nodes(levels: int) -> None:
    """One turn for each leaf of a sequential tree or a chain, one for each level of a binomial tree.

    The binomial root serves its highest child first, whose ready message comes last of `levels`.
    """
    scenario = Scenario(2**levels, 4096, case=2**levels - 1, interfering_bytes=1)
    turn = broadcast_formula.turn(4096, Timing())
    turns = {"sequential": 2**levels - 1, "chain": 2**levels - 1, "binomial": levels}
    expected = {tree: 5 + count * turn for tree, count in turns.items()}
    expected["binomial"] += 2 * (levels - 1)
    assert expected == {tree: simulate(replace(scenario, tree=tree), "conventional") for tree in turns}


@pytest.mark.parametrize("tree", trees.NAMES)
@pytest.mark.parametrize("nodes", [2, 3, 7, 8, 9, 100, 1024])
def test_every_node_of_a_tree_has_one_parent_of_a_lower_number(tree: str, nodes: int) -> None:
    children = trees.children(tree, nodes)
    assert list(range(1, nodes)) == sorted(child for each in children for child in each)
    assert all(node < child for node, each in enumerate(children) for child in each)


@pytest.mark.parametrize("tree", trees.NAMES)
@pytest.mark.parametrize("unit", UNITS)
def test_every_tree_reaches_every_node_under_interference(tree: str, unit: str) -> None:
    scenario = Scenario(64, 48, case=1, interfering_bytes=2048, interferers=9, tree=tree)
    assert simulate(undisturbed(scenario), unit) <= simulate(scenario, unit) + contention(scenario)


Take = Callable[[Unit, Message], Steps]


def corrupt(self: Unit, message: Message, take: Take) -> Steps:
    damaged = message.payload[:-1] + bytes([message.payload[-1] ^ 1]) if self.number == 3 and message.payload else b""
    return take(self, replace(message, payload=damaged or message.payload))


def lose(self: Unit, message: Message, take: Take) -> Steps:
    if self.number == 3 and message.kind is Kind.DATA:
        return iter(())  # type: ignore[return-value]
    return take(self, message)


@pytest.mark.parametrize(
    ("fault", "error"),
    [(corrupt, "node 3 got 64 B, not the message of 64 B once"), (lose, "node 0 has not finished")],
)
def test_a_message_that_is_damaged_or_lost_fails_the_launch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: Callable[..., Steps], error: str
) -> None:
    take = Unit._take
    monkeypatch.setattr(mpi_unit.Unit, "_take", lambda self, message: fault(self, message, take))
    with pytest.raises(WrongResult, match=error):
        simulate(Scenario(8, 64, case=7, interfering_bytes=1), "proposed")
    assert broadcast_cycles.main(["--message-bytes", "64", "--case", "7"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"status": "failed", "check": broadcast_cycles.CHECK, "error": error} == lines[-1]
    assert len(lines) == 2


def run(capsys: pytest.CaptureFixture[str], **parameters: object) -> tuple[int, list[dict[str, object]]]:
    """The program with the words that mpibed makes of these parameters, two measured repetitions after a warm-up."""
    point = {p.name: p.default for p in MODEL.parameters} | {"message_bytes": (64,)} | parameters
    status = broadcast_cycles.main([*MODEL.arguments(point), "--repetitions", "2", "--warmup", "1"])  # type: ignore[arg-type]
    return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_program_observes_what_its_description_declares(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = run(capsys, message_bytes=(64, 4))
    assert status == 0
    assert lines[0]["program"] == {"name": "broadcast_cycles", "clock": "cycles of the model"}
    assert lines[-1] == {"status": "ok", "check": broadcast_cycles.CHECK}
    keys = ("metric", "unit", "message_bytes", "phase", "repetition", "rank", "operations")
    assert [tuple(line[key] for key in keys) for line in lines[1:-1]] == [
        (metric.name, metric.unit, size, phase, repetition, "all", 1)
        for size in (64, 4)
        for phase, repetition in [("warmup", 0), ("measure", 0), ("measure", 1)]
        for metric in MODEL.metrics
    ]
    assert [line["value"] for line in lines[1:3]] == [348, 543 / 348]


def test_the_conventional_unit_is_its_own_yardstick(capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = run(capsys, mpi_unit="conventional")
    assert [line["value"] for line in lines[1:3]] == [543, 1]


def test_random_arrivals_follow_from_the_seed_and_the_repetition(capsys: pytest.CaptureFixture[str]) -> None:
    def cycles(seed: int) -> list[object]:
        _, lines = run(capsys, arrival_spread_cycles=1000, arrival_seed=seed)
        return [line["value"] for line in lines if line.get("metric") == "broadcast_cycles"]

    assert cycles(1) == cycles(1) != cycles(2)
    assert len(set(cycles(1))) == 3


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--case", "8"], "case=8 with 8 nodes; allowed: 1 to 7, the last of which means no interference"),
        (["--interferers", "4", "--case", "3"], "interferers=4 between node 3 and the last of 8; allowed: 1 to 2"),
        (["--message-bytes", "4,0"], "'0' is not allowed; allowed: a whole number from 1"),
        (["--message-bytes", "4,"], "'' is not allowed"),
        (["--repetitions", "0"], "'0' is not allowed; allowed: a whole number from 1"),
        (["--tree", "oak"], "invalid choice: 'oak'"),
        (["--mpi", "proposed"], "unrecognized arguments: --mpi proposed"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_is_refused(capsys: pytest.CaptureFixture[str], words: list[str], error: str) -> None:
    assert broadcast_cycles.main(words) == 1
    program, closing = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert "program" in program
    assert (closing["status"], closing["check"]) == ("failed", "arguments")
    assert error in closing["error"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"case": 7}, None),
        ({"case": 7, "interferers": 5}, None),
        ({"case": 8}, "case=8 with 8 nodes"),
        ({"interferers": 4}, "interferers=4 between node 1 and the last of 8; allowed: 1 to 3"),
    ],
)
def test_impossible_interference_is_refused_when_planned(changes: dict[str, int], reason: str | None) -> None:
    found = MODEL.refuse({p.name: p.default for p in MODEL.parameters} | changes, 1)
    assert found == reason or (reason and found and reason in found)


@pytest.mark.parametrize(("case", "ranks", "fits"), [(1, 2, True), (3, 4, True), (4, 4, False), (1, 1, False)])
def test_a_case_needs_its_rank(case: int, ranks: int, fits: bool) -> None:
    point = {p.name: p.default for p in ON_NODES.parameters} | {"case": case}
    assert fits == (ON_NODES.refuse(point, ranks) is None)
