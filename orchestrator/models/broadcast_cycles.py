"""The program of `broadcast.cycle_model`: cycles of a broadcast with one of the MPI units, over message sizes.

    python -m orchestrator.models.broadcast_cycles --message-bytes 4,64 --case 1 --mpi-unit proposed

Repetitions differ only where leaves arrive at random.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NoReturn

from orchestrator.models import trees
from orchestrator.models.broadcast_scenario import UNITS, Scenario
from orchestrator.models.broadcast_simulation import WrongResult, simulate

CHECK = "every leaf received every byte exactly once"


class _Refused(Exception):
    pass


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Refused(message)


def main(words: Sequence[str] | None = None) -> int:
    _write(program={"name": "broadcast_cycles", "clock": "cycles of the model"})
    check = "arguments"
    try:
        asked = _parser().parse_args(words)
        scenarios = [_scenario(asked, message_bytes) for message_bytes in asked.message_bytes]
        check = CHECK
        for scenario in scenarios:
            _observe(asked, scenario)
    except (_Refused, WrongResult) as error:
        _write(status="failed", check=check, error=str(error))
        return 1
    _write(status="ok", check=CHECK)
    return 0


def _observe(asked: argparse.Namespace, scenario: Scenario) -> None:
    for phase, repetitions in (("warmup", asked.warmup), ("measure", asked.repetitions)):
        for repetition in range(repetitions):
            chance = random.Random(f"{asked.arrival_seed}/{phase}/{repetition}")
            here = replace(scenario, arrivals=_arrivals(asked.arrival_spread_cycles, scenario.nodes, chance))
            cycles = _cycles(here, asked.mpi_unit)
            values = {"broadcast_cycles": cycles, "speedup": _cycles(here, "conventional") / cycles}
            for metric, value in values.items():
                _write(
                    metric=metric, value=value, unit="1", phase=phase, repetition=repetition, rank="all", operations=1,
                    message_bytes=scenario.message_bytes,
                )  # fmt: skip


_cycles = lru_cache(maxsize=2)(simulate)  # repetitions without chance are the same


def _arrivals(spread: int, nodes: int, chance: random.Random) -> tuple[int, ...]:
    return tuple(chance.randint(0, spread) for _ in range(1, nodes)) if spread else ()


def _scenario(asked: argparse.Namespace, message_bytes: int) -> Scenario:
    scenario = Scenario(
        nodes=asked.processing_nodes,
        message_bytes=message_bytes,
        case=asked.case,
        interfering_bytes=asked.interfering_bytes,
        interferers=asked.interferers,
        tree=asked.tree,
    )
    if reason := scenario.refusal():
        raise _Refused(reason)
    return scenario


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="broadcast_cycles", allow_abbrev=False, description=__doc__.partition("\n")[0])
    parser.add_argument("--message-bytes", type=_sizes, default=[64], help="what is broadcast, in B, or a list")
    parser.add_argument("--processing-nodes", type=_at_least(2), default=8)
    parser.add_argument(
        "--case", type=_at_least(1), default=1, help="node that is busy with the last one; the last: none"
    )
    parser.add_argument("--interfering-bytes", type=_at_least(1), default=512)
    parser.add_argument("--interferers", type=_at_least(1), default=1, help="busy pairs")
    parser.add_argument("--tree", choices=trees.NAMES, default="sequential")
    parser.add_argument("--mpi-unit", choices=UNITS, default="proposed")
    parser.add_argument(
        "--arrival-spread-cycles", type=_at_least(0), default=0, help="leaves arrive at random up to here"
    )
    parser.add_argument("--arrival-seed", type=_at_least(0), default=0)
    parser.add_argument("--repetitions", type=_at_least(1), default=10)
    parser.add_argument("--warmup", type=_at_least(1), default=1)
    return parser


def _sizes(word: str) -> list[int]:
    return [_at_least(1)(item) for item in word.split(",")]


def _at_least(minimum: int) -> Callable[[str], int]:
    def parse(word: str) -> int:
        if not word.isdecimal() or int(word) < minimum:
            raise argparse.ArgumentTypeError(f"{word!r} is not allowed; allowed: a whole number from {minimum}")
        return int(word)

    return parse


def _write(**members: Any) -> None:
    print(json.dumps(members))


if __name__ == "__main__":
    sys.exit(main())
