"""What happens during a run, as values. The core emits them; the command line shows them as bars, lines or JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """Anything that happens."""


@dataclass(frozen=True)
class Step(Event):
    """A long step begins: a sentence."""

    text: str


@dataclass(frozen=True)
class Warned(Event):
    """Something a reader of the results must know."""

    text: str


@dataclass(frozen=True)
class RunStarted(Event):
    run: str
    directory: str
    launches: int  # in the plan
    finished: int  # of them before now, when resuming
    estimated_s: float


@dataclass(frozen=True)
class LaunchStarted(Event):
    cell: str
    label: str
    launch: int
    parameters: str


@dataclass(frozen=True)
class LaunchEnded(Event):
    cell: str
    label: str
    launch: int
    status: str
    reason: str
    duration_s: float


@dataclass(frozen=True)
class RunEnded(Event):
    run: str
    directory: str
    ok: int
    failed: int
    page: str


Emit = Callable[[Event], None]
