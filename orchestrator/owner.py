"""Who owns what was created: a process of this machine, or a person who asked for a testbed to stay.

The owner is a label. A process is named by pid, start time and boot, so that a reused pid is not taken for it.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

INTERACTIVE = "interactive"  # made by `mpibed up`: lives until `mpibed down`


def this_process() -> str:
    """The label of this process."""
    return _identity(os.getpid()) or f"{socket.gethostname()}/{os.getpid()}/0/0"


def is_alive(owner: str) -> bool:
    """Whether the owner still exists. One on another host cannot be asked, and counts as alive."""
    if owner == INTERACTIVE:
        return True
    host, _, rest = owner.partition("/")
    pid = rest.partition("/")[0]
    if host != socket.gethostname() or not pid.isdigit():
        return bool(owner) and host != socket.gethostname()
    return _identity(int(pid)) == owner


def _identity(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    return "" if state == "Z" else f"{socket.gethostname()}/{pid}/{fields[18]}/{boot[:8]}"
