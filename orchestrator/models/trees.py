"""Broadcast trees: whom each node hands the message on to, in the order of the conventional unit. Node 0 is the root.

    sequential   0 -> 1, 2, 3, ...            the root serves everybody, in node order (paper, section 2.1)
    chain        0 -> 1 -> 2 -> 3 ...
    binary       i -> 2i + 1, 2i + 2
    binomial     i -> i + 2^k for each 2^k below i's lowest set bit (below the size for the root), largest first

The paper names the other three as related work (section 1, references 7 and 8) without measuring them.
"""

from __future__ import annotations

NAMES = ("sequential", "chain", "binary", "binomial")


def children(tree: str, nodes: int) -> list[list[int]]:
    """For each node its children. Every node but the root is the child of exactly one, which has a lower number."""
    match tree:
        case "sequential":
            found = [list(range(1, nodes))] + [[] for _ in range(1, nodes)]
        case "chain":
            found = [[node + 1] for node in range(nodes)]
        case "binary":
            found = [[2 * node + 1, 2 * node + 2] for node in range(nodes)]
        case "binomial":
            found = [_binomial(node, nodes) for node in range(nodes)]
        case _:
            raise ValueError(f"{tree!r} is not a tree; allowed: {', '.join(NAMES)}")
    return [[child for child in each if child < nodes] for each in found]


def _binomial(node: int, nodes: int) -> list[int]:
    lowest_bit = node & -node if node else 1 << (nodes - 1).bit_length()
    return [node + (1 << power) for power in reversed(range(lowest_bit.bit_length() - 1))]
