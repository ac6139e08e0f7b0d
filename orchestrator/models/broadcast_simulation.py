"""A scenario played through by the units of `mpi_unit`, event by event."""

from __future__ import annotations

import random
from collections.abc import Iterator

import simpy

from orchestrator.models import trees
from orchestrator.models.broadcast_scenario import Scenario
from orchestrator.models.mpi_unit import Steps, Timing, Unit


class WrongResult(Exception):
    """A node did not get the message exactly once."""


def simulate(scenario: Scenario, mpi_unit: str, timing: Timing | None = None) -> int:
    """Cycles from the root's call until every node has finished the broadcast, checked by content at every node."""
    timing = timing or Timing()
    env = simpy.Environment()
    units = [Unit(env, number, timing) for number in range(scenario.nodes)]
    children = trees.children(scenario.tree, scenario.nodes)
    parent = {child: units[node] for node, each in enumerate(children) for child in each}
    message = random.Random(scenario.message_bytes).randbytes(scenario.message_bytes)
    finished: dict[int, int] = {}

    transfers: dict[int, Steps] = {}
    for first, second in scenario.pairs:
        transfers[first] = units[first].send("transfer", units[second], bytes(scenario.interfering_bytes))
        transfers[second] = units[second].receive("transfer", units[first])

    def broadcast(unit: Unit) -> Steps:
        payload = message
        if unit.number:
            yield from unit.receive("broadcast", parent[unit.number])
            (payload,) = unit.memory["broadcast"]
        serve = unit.broadcast_in_order if mpi_unit == "conventional" else unit.broadcast_by_readiness
        yield from serve("broadcast", [units[child] for child in children[unit.number]], payload)
        finished[unit.number] = int(env.now)

    def commands(unit: Unit) -> Iterator[tuple[int, Steps]]:
        if unit.number in transfers:
            yield 0, transfers[unit.number]
        late = unit.number > 0 and scenario.arrivals
        yield scenario.arrivals[unit.number - 1] if late else 0, broadcast(unit)

    for unit in units:
        env.process(unit.execute(commands(unit)))
    env.run()
    _check(units, message, finished)
    return max(finished.values())


def _check(units: list[Unit], message: bytes, finished: dict[int, int]) -> None:
    for unit in units:
        expected = [message] if unit.number else []
        got = unit.memory.get("broadcast", [])
        if got != expected:
            sizes = ", ".join(f"{len(each)} B" for each in got) or "nothing"
            raise WrongResult(f"node {unit.number} got {sizes}, not the message of {len(message)} B once")
        if unit.number not in finished:
            raise WrongResult(f"node {unit.number} has not finished")
