"""How MPICH is told to move bytes between ranks, as environment variables of a launch.

| name    | inside a node                  | between nodes                   |
|---------|--------------------------------|---------------------------------|
| native  | MPICH's own shared memory      | TCP                             |
| tcp     | TCP                            | TCP                             |
| ofi-shm | shared memory                  | shared memory, if nodes share it |

The network module is libfabric's: over UCX, which MPICH would take by itself, a receive from MPI_ANY_SOURCE may never
end (MPICH 5.0.2, seen with four ranks, as processes and in containers).

MPICH's own shared memory spins without yielding: with more ranks than cores each hand-over costs a time slice, so
`auto` then takes the transport that yields. Variables: MPICH's CVAR list, fi_provider(7) of libfabric.
"""

from __future__ import annotations

_COMMON = {
    # Cross-memory attach needs shared PID and user namespaces and ends the program where it has none.
    "MPIR_CVAR_CH4_CMA_ENABLE": "0",
}
_TCP = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}
_EVERYWHERE = {"MPIR_CVAR_NOLOCAL": "1"}

NONE = "none"  # of a program that runs on no node
ENVIRONMENT: dict[str, dict[str, str]] = {
    NONE: {},
    "native": _COMMON | _TCP,
    "tcp": _COMMON | _TCP | _EVERYWHERE,
    "ofi-shm": _COMMON | {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "shm"} | _EVERYWHERE,
}


def choose(asked: str, *, one_node: bool, ranks: int, cores: int) -> str:
    """The transport that `auto` means for so many ranks on a host with so many cores."""
    if asked != "auto":
        return asked
    if ranks <= cores:
        return "native"
    return "ofi-shm" if one_node else "tcp"
