"""A command as people write it for mpiexec: `[mpiexec] [-n N] [-ppn K] [-env NAME VALUE] PROGRAM ARGUMENTS...`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.errors import UsageError


@dataclass(frozen=True)
class Command:
    """What to run; None means the testbed's own number."""

    argv: tuple[str, ...]
    ranks: int | None
    ranks_per_node: int | None
    env: dict[str, str]


def parse(words: Sequence[str]) -> Command:
    """UsageError names the word that is not understood."""
    rest = list(words)
    if rest and rest[0] in ("mpiexec", "mpirun", "mpiexec.hydra"):
        rest.pop(0)
    counts: dict[str, int] = {}
    env: dict[str, str] = {}
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-n", "-np", "-ppn"):
            counts["ppn" if option == "-ppn" else "n"] = _count(option, rest)
        elif option in ("-env", "-genv") and len(rest) >= 2:
            name = rest.pop(0)
            env[name] = rest.pop(0)
        else:
            raise UsageError(f"{option!r} is not understood before the program; allowed: -n N, -ppn K, -env NAME VALUE")
    if not rest:
        raise UsageError("no program to run; write `mpibed exec -- -n 4 ./program arguments`")
    return Command(tuple(rest), counts.get("n"), counts.get("ppn"), env)


def _count(option: str, rest: list[str]) -> int:
    word = rest.pop(0) if rest else ""
    if not word.isdecimal() or int(word) < 1:
        raise UsageError(f"{option} needs a whole number of 1 or more, not {word!r}")
    return int(word)
