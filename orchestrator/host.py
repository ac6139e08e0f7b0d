"""What this host is doing and what a node is: noise around a launch, facts for the environment table.

Noise is read before and after each launch from /proc and the cgroup, so that a disturbed launch can be told from a
quiet one. Facts are asked from inside a node by a shell script, because that works the same on every backend.
"""

from __future__ import annotations

import os
from pathlib import Path

from orchestrator.backends.base import Executor, Node

_TICKS = os.sysconf("SC_CLK_TCK")
_FACTS_TIMEOUT_S = 20.0

# One `name=value` line per fact; what a node does not tell is left out.
_FACTS = r"""
say() { [ -n "$2" ] && printf '%s=%s\n' "$1" "$2"; }
say hostname "$(uname -n)"
say kernel "$(uname -r)"
say machine "$(uname -m)"
say os "$(. /etc/os-release 2>/dev/null; echo "$PRETTY_NAME")"
say cpu_model "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
say cores "$(nproc)"
say memory_bytes "$(awk '/^MemTotal:/ {printf "%.0f", $2 * 1024}' /proc/meminfo)"
say shm_bytes "$(df -k /dev/shm 2>/dev/null | awk 'NR == 2 {printf "%.0f", $2 * 1024}')"
say clock_source "$(cat /sys/devices/system/clocksource/clocksource0/current_clocksource 2>/dev/null)"
say frequency_governor "$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null)"
say turbo_off "$(cat /sys/devices/system/cpu/intel_pstate/no_turbo 2>/dev/null)"
say swap_bytes "$(awk '/^SwapTotal:/ {printf "%.0f", $2 * 1024}' /proc/meminfo)"
say transparent_hugepages "$(sed -n 's/.*\[\(.*\)\].*/\1/p' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null)"
"""


def cores() -> int:
    """Cores this process may use: what ranks and mpibed share."""
    return len(os.sched_getaffinity(0))


def noise() -> dict[str, float]:
    """One-minute load, and the seconds of steal and throttling since boot; 0 where the kernel does not tell."""
    return {"load1": os.getloadavg()[0], "steal_s": _steal_s(), "throttled_s": _throttled_s()}


def facts(testbed: Executor, node: Node) -> dict[str, str]:
    """What a node says of itself."""
    lines: list[str] = []
    process = testbed.start(node, ["sh", "-c", _FACTS], {"LC_ALL": "C"}, lambda stream, line: lines.append(line))
    process.wait(_FACTS_TIMEOUT_S)
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _steal_s() -> float:
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
        return int(fields[8]) / _TICKS
    except (OSError, IndexError, ValueError):
        return 0.0


def _throttled_s() -> float:
    """Seconds this process's cgroup was throttled (cgroup v2: cpu.stat throttled_usec; v1: throttled_time in ns)."""
    for path, key, scale in (
        ("/sys/fs/cgroup/cpu.stat", "throttled_usec", 1e-6),
        ("/sys/fs/cgroup/cpu/cpu.stat", "throttled_time", 1e-9),
    ):
        try:
            stat = dict(line.split() for line in Path(path).read_text(encoding="ascii").splitlines())
            return int(stat[key]) * scale
        except (OSError, KeyError, ValueError):
            continue
    return 0.0
