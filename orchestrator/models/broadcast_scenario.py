"""A broadcast among MPI units of which some are busy with transfers of their own: who does what.

Times are cycles, sizes bytes. The paper is that of `mpi_unit`.
"""

from __future__ import annotations

from dataclasses import dataclass

UNITS = ("conventional", "proposed")


@dataclass(frozen=True)
class Scenario:
    """Node 0 broadcasts. `case` numbers the interference as the paper does (section 3): node `case` sends the last one
    `interfering_bytes` first, and the last case is none. With more `interferers`, so do the nodes next inwards:
    `case` + 1 to the last but one, and so on.

    `arrivals` are the cycles at which the processors of nodes 1, 2, ... call the broadcast; without any, all at 0.
    """

    nodes: int
    message_bytes: int
    case: int
    interfering_bytes: int
    interferers: int = 1
    tree: str = "sequential"
    arrivals: tuple[int, ...] = ()

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Sender and receiver of each transfer; which is which, the paper does not say, and the cycles are the same."""
        last = self.nodes - 1
        return [(self.case + i, last - i) for i in range(self.interferers)] if self.case < last else []

    def refusal(self) -> str | None:
        """Why this interference cannot be, if so."""
        if not 1 <= self.case < self.nodes:
            allowed = f"1 to {self.nodes - 1}, the last of which means no interference"
            return f"case={self.case} with {self.nodes} nodes; allowed: {allowed}"
        if any(first >= second for first, second in self.pairs):
            where = f"between node {self.case} and the last of {self.nodes}"
            return f"interferers={self.interferers} {where}; allowed: 1 to {(self.nodes - self.case) // 2}"
        return None
