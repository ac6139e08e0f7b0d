"""The hardware MPI unit of a processing node, cycle by cycle, after H. Yun, W. Chung and Y. Lee, "The Design of MPI
Hardware Unit for Enhanced Broadcast Communication" (KICS, 2011), section 2.2. All times are cycles, all sizes bytes.

One point-to-point transfer in ready-send mode (Fig. 5), S the sender's unit and R the receiver's:

    R -- ready --> S    S pairs it with its command    S -- data on --> R    S -- data --> R    R -- complete --> S

The bus is AXI (Fig. 6): transfers between different nodes go on side by side, but the slave port of a node takes one
message at a time, so messages to the same node queue there.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Any

import simpy

Steps = Generator[simpy.Event, Any, None]


@dataclass(frozen=True)
class Timing:
    """What the blocks of a unit cost. The paper describes the blocks but gives no delays; its Table 5 determines them.

    One leaf's turn is the step between neighbouring cases: 23, 39, 71 and 135 cycles for 32, 64, 128 and 256 bytes,
    that is 7 + 2 per word of 4 bytes. The first turn begins at cycle 5 and, behind a transfer, 2 cycles after its end.
    If control messages are one word, the ready message is these 2 and leaves 3 of the 5 to the command; data on and
    complete leave 3 of the 7 to the pairing.
    """

    word_bytes: int = 4
    word_cycles: int = 2  # a word through a port; ready, data on and complete are one word each
    issue_cycles: int = 3  # from the processor's command to its execution, if the unit is free
    pairing_cycles: int = 3  # a ready message and a command become a transfer

    def data_cycles(self, message_bytes: int) -> int:
        """Cycles of a payload on a port: whole words."""
        return -(-message_bytes // self.word_bytes) * self.word_cycles


class Kind(Enum):
    READY, DATA_ON, DATA, COMPLETE = range(4)


@dataclass(frozen=True)
class Message:
    """`command` keeps the messages of a broadcast apart from those of a transfer between the same nodes."""

    kind: Kind
    sender: int
    command: str
    payload: bytes = b""


class _EndOfCycle(simpy.Event):
    """Comes after everything else of the present cycle."""

    def __init__(self, env: simpy.Environment) -> None:
        super().__init__(env)
        self._ok, self._value = True, None
        env.schedule(self, priority=simpy.events.EventPriority(simpy.events.NORMAL + 1))


class Port:
    """The slave port of a node: one message at a time, never interrupted.

    Of those that wait, the lowest sender is next. The paper does not say how its bus arbitrates; fixed priority is the
    plainest way, and gives its 351 cycles where turns alone give 350 (Table 5, 16 nodes, 32 bytes): the first complete
    message waits a cycle for the ready message under way, and does not queue behind all the others.
    """

    def __init__(self, env: simpy.Environment) -> None:
        self._env, self._busy = env, False
        self._waiting: list[tuple[int, int, simpy.Event]] = []
        self._arrivals = count()

    def carry(self, sender: int, cycles: int) -> Steps:
        turn = self._env.event()
        heapq.heappush(self._waiting, (sender, next(self._arrivals), turn))
        self._arbitrate()
        yield turn
        yield self._env.timeout(cycles)
        self._busy = False
        self._arbitrate()

    def _arbitrate(self) -> None:
        # At the end of the cycle: who asks in the same cycle must have the same chance.
        _EndOfCycle(self._env).callbacks.append(lambda _: self._grant())

    def _grant(self) -> None:
        if self._waiting and not self._busy:
            self._busy = True
            heapq.heappop(self._waiting)[-1].succeed()


class Unit:
    """One node's MPI unit. Commands are executed in order, from a single issue queue (section 3).

    `memory` has every payload received, by command.
    """

    def __init__(self, env: simpy.Environment, number: int, timing: Timing) -> None:
        self.number, self.memory = number, dict[str, list[bytes]]()
        self._env, self._timing, self._port = env, timing, Port(env)
        self._ready, self._others = simpy.FilterStore(env), simpy.FilterStore(env)

    def execute(self, commands: Iterable[tuple[int, Steps]]) -> Steps:
        """Commands, each with the cycle its processor gives it; a queued one has been decoded when its turn comes."""
        for given, steps in commands:
            yield self._env.timeout(max(0, given + self._timing.issue_cycles - self._env.now))
            yield from steps

    def receive(self, command: str, sender: Unit) -> Steps:
        yield from sender._take(Message(Kind.READY, self.number, command))
        yield self._of(Kind.DATA_ON, command, sender.number)
        data = yield self._of(Kind.DATA, command, sender.number)
        self.memory.setdefault(command, []).append(data.payload)
        yield from sender._take(Message(Kind.COMPLETE, self.number, command))

    def send(self, command: str, receiver: Unit, payload: bytes) -> Steps:
        yield self._ready.get(lambda message: (message.command, message.sender) == (command, receiver.number))
        yield from self._transfer(command, receiver, payload)

    def broadcast_in_order(self, command: str, leaves: list[Unit], payload: bytes) -> Steps:
        """The conventional unit: the broadcast has become a send to each leaf, in the order given (section 2.1)."""
        for leaf in leaves:
            yield from self.send(command, leaf, payload)

    def broadcast_by_readiness(self, command: str, leaves: list[Unit], payload: bytes) -> Steps:
        """The proposed unit: whichever leaf's ready message came first, until every mask bit is set (section 2.2.2)."""
        units = {leaf.number: leaf for leaf in leaves}
        mask = dict.fromkeys(units, False)
        while not all(mask.values()):
            ready = yield self._ready.get(lambda message: message.command == command and not mask[message.sender])
            yield from self._transfer(command, units[ready.sender], payload)
            mask[ready.sender] = True

    def _transfer(self, command: str, receiver: Unit, payload: bytes) -> Steps:
        yield self._env.timeout(self._timing.pairing_cycles)
        yield from receiver._take(Message(Kind.DATA_ON, self.number, command))
        yield from receiver._take(Message(Kind.DATA, self.number, command, payload))
        yield self._of(Kind.COMPLETE, command, receiver.number)

    def _take(self, message: Message) -> Steps:
        """Through this unit's port; then the distributor keeps ready messages apart from the rest (section 2.2.1)."""
        is_data = message.kind is Kind.DATA
        cycles = self._timing.data_cycles(len(message.payload)) if is_data else self._timing.word_cycles
        yield from self._port.carry(message.sender, cycles)
        store = self._ready if message.kind is Kind.READY else self._others
        store.put(message)

    def _of(self, kind: Kind, command: str, sender: int) -> simpy.Event:
        return self._others.get(lambda m: (m.kind, m.command, m.sender) == (kind, command, sender))
