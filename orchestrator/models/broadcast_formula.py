"""The same scenario in closed form, where ports are not contended; the tests hold the simulation against it."""

from __future__ import annotations

from orchestrator.models.broadcast_scenario import Scenario
from orchestrator.models.mpi_unit import Timing


def cycles(scenario: Scenario, mpi_unit: str, timing: Timing | None = None) -> int:
    """For the sequential tree, at most one interferer and no late arrivals.

    With d cycles for each leaf's turn, the first ready message at cycle s and that of a busy node at r:

        without interference    f = s + (N - 1) d
        conventional            max(f, r + (N - case) d)    node `case` and all after it wait for r
        proposed                max(f, r + 2 d)             only the two busy ones do

    Left out: complete messages may meet ready messages at the root's port. `is_exact` says where they do not; elsewhere
    it costs no more than a word for each leaf.
    """
    t = timing or Timing()
    first_ready = t.issue_cycles + t.word_cycles
    undisturbed = first_ready + (scenario.nodes - 1) * turn(scenario.message_bytes, t)
    if not scenario.pairs:
        return undisturbed
    released = first_ready + turn(scenario.interfering_bytes, t) + t.word_cycles
    waiting = scenario.nodes - scenario.case if mpi_unit == "conventional" else 2
    return max(undisturbed, released + waiting * turn(scenario.message_bytes, t))


def turn(message_bytes: int, t: Timing) -> int:
    """Pairing, data on, data, complete."""
    return t.pairing_cycles + t.word_cycles + t.data_cycles(message_bytes) + t.word_cycles


def is_exact(scenario: Scenario, mpi_unit: str, timing: Timing | None = None) -> bool:
    """Whether no ready message meets another kind at the root's port, nor a late one the first ones."""
    t = timing or Timing()
    d, word = turn(scenario.message_bytes, t), t.word_cycles
    ready_messages = (scenario.nodes - 1) * word
    if not scenario.pairs:
        return ready_messages <= d
    late = turn(scenario.interfering_bytes, t)  # when the two late ones begin, counted from the first turn
    turns_before = scenario.case - 1 if mpi_unit == "conventional" else scenario.nodes - 3
    between_two_turns = late >= turns_before * d or late % d + 2 * word <= d - word
    return ready_messages <= min(d, late) and between_two_turns
