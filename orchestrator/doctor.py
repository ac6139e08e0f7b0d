"""What this machine can do: one check per piece, each with what was seen and the remedy. Nothing is changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from orchestrator import backends, host, project
from orchestrator.backends.base import Check

_MIB = 1 << 20
_CAP_NET_ADMIN = 12  # linux/capability.h


def checks() -> dict[str, list[Check]]:
    """The checks by section: the machine, then each backend."""
    machine = [_python(), _compiler(), _cores(), _clock(), _shared_memory(), _netem(), _net_admin()]
    return {"machine": machine} | {name: backends.backend(name).checks() for name in backends.NAMES}


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")


def _compiler() -> Check:
    mpicc = project.MPI_PREFIX / "bin" / "mpicc"
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not mpicc.exists():
        missing = "no cc" if compiler is None else f"no {mpicc}"
        return Check("C compiler", False, missing, "install gcc (Debian: apt install gcc libc6-dev), then `make setup`")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    return Check("C compiler", True, version.partition("\n")[0])


def _cores() -> Check:
    count = host.cores()
    return Check(
        "cores", count >= 2, f"{count} usable", "wall-clock times of two ranks need two cores; use a larger machine"
    )


def _clock() -> Check:
    path = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    source = path.read_text(encoding="ascii").strip() if path.exists() else "unknown"
    begin = time.perf_counter_ns()
    for _ in range(1000):
        time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    cost_ns = (time.perf_counter_ns() - begin) / 1000
    # A source without a vDSO costs a system call or more each time it is read.
    slow = source in ("acpi_pm", "hpet", "jiffies")
    return Check(
        "clock source", not slow, f"{source}, {cost_ns:.0f} ns a reading from Python",
        "boot with clocksource=tsc if the processor has a constant TSC", required=False,
    )  # fmt: skip


def _shared_memory() -> Check:
    try:
        stat = os.statvfs("/dev/shm")
    except OSError as error:
        return Check("shared memory", False, f"/dev/shm: {error.strerror}", "mount a tmpfs at /dev/shm")
    free = stat.f_bavail * stat.f_frsize // _MIB
    return Check(
        "shared memory", free >= 64, f"{free} MiB free in /dev/shm", "free or enlarge /dev/shm: 64 MiB are needed"
    )


def _netem() -> Check:
    remedy = "load it (modprobe sch_netem), or use a kernel that has it; only fabrics on real packets need it"
    if Path("/sys/module/sch_netem").exists():
        return Check("kernel qdisc netem", True, "loaded", required=False)
    modules = Path("/lib/modules") / os.uname().release
    there = any(modules.glob("kernel/net/sched/sch_netem.ko*")) or _built_in(modules, "sch_netem")
    return Check(
        "kernel qdisc netem", there, "available as a module" if there else "not in this kernel", remedy, required=False
    )


def _built_in(modules: Path, name: str) -> bool:
    try:
        return f"/{name}.ko" in (modules / "modules.builtin").read_text(encoding="ascii")
    except OSError:
        return False


def _net_admin() -> Check:
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        effective = int(next(line for line in status.splitlines() if line.startswith("CapEff:")).split()[1], 16)
    except (OSError, StopIteration, ValueError):
        effective = 0
    has = bool(effective >> _CAP_NET_ADMIN & 1)
    return Check(
        "capability NET_ADMIN",
        has,
        "present" if has else "absent",
        "run as root to shape local interfaces",
        required=False,
    )
