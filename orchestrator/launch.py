"""One `mpiexec` on a testbed, the same way on every backend.

Hydra's manual launcher prints one proxy command per node and waits; each is started in its node through the testbed, so
no sshd, key or host file is needed. Every process of a launch carries the launch's mark in its environment; that is how
all of them are found and ended when something goes wrong.
(Hydra: "Using the Hydra Process Manager", MPICH documentation, section on the manual launcher.)
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from orchestrator.backends.base import Executor, Install, Node, OnLine, Process, Stream
from orchestrator.errors import TestbedLost

MARK = "MPIBED_LAUNCH"
_COMMAND = "HYDRA_LAUNCH: "
_COMMANDS_END = "HYDRA_LAUNCH_END"
# Wait statuses of the ranks of a node; the line of the first node has the announcement in front.
_EXIT_CODES = re.compile(r"(\[mpiexec@[^\]]*\] Exit codes: )?\[([^\]]+)\] ([\d,]+)")
_HYDRAS = (signal.SIGKILL, signal.SIGTERM)  # what it ends ranks with
_KEPT_LINES = 400  # of output that is not an observation, newest first to stay
_KEPT_CHARACTERS = 2000  # of each such line
_GRACE_S = 10.0  # for mpiexec's output to end once every process of the launch is gone

# Ends every process whose environment holds the mark, until a look finds none; says how many there were. Plain sh and
# /proc, because that is all a node is sure to have. It skips itself: its own environment has no mark.
# Then it removes the user's segments of libfabric (named pid:...) and MPICH that no process has mapped: ranks that are
# killed leave theirs, which keep memory, and a later rank of the same pid would take libfabric's for a live one.
_REAP = r"""
killed=0
for round in 1 2 3 4 5 6 7 8 9 10; do
  found=0
  for environ in /proc/[0-9]*/environ; do
    if tr '\0' '\n' 2>/dev/null < "$environ" | grep -qxF "$1"; then
      pid=${environ#/proc/}; kill -KILL "${pid%/environ}" 2>/dev/null && found=$((found + 1))
    fi
  done
  killed=$((killed + found))
  [ "$found" -eq 0 ] && break
  sleep 0.05
done 2>/dev/null
for segment in /dev/shm/[0-9]*:* /dev/shm/mpich_shm_*; do
  [ -O "$segment" ] && ! grep -qsF "$segment" /proc/[0-9]*/maps && rm -f "$segment"
done
echo "$killed $found"
"""


class MpiTestbed(Executor, Protocol):
    """What launching needs of a testbed."""

    @property
    def nodes(self) -> tuple[Node, ...]: ...
    @property
    def install(self) -> Install: ...


@dataclass(frozen=True)
class Job:
    """What to launch: `argv` on the first nodes with `ranks_per_node` each. `timeout_s` None waits for ever."""

    argv: tuple[str, ...]
    ranks: int
    ranks_per_node: int
    env: Mapping[str, str]
    timeout_s: float | None
    mark: str


@dataclass
class Outcome:
    """How a launch ended. `reason` is empty when mpiexec ended with 0 in time; output is what the ranks wrote."""

    reason: str = ""
    exit_code: int | None = None
    duration_s: float = 0.0
    stdout: list[str] = field(default_factory=list)
    stderr: list[str] = field(default_factory=list)


class _Output:
    """Gathers the lines of mpiexec; the launcher's commands are taken out and announced."""

    def __init__(self, tee: OnLine | None) -> None:
        self._tee = tee
        self.commands: list[str] = []
        self.commands_complete = threading.Event()
        self.ended: list[tuple[str, int]] = []  # node and wait status of each rank that mpiexec knows of
        self.stdout: list[str] = []
        self.other: deque[str] = deque(maxlen=_KEPT_LINES)
        self.stderr: deque[str] = deque(maxlen=_KEPT_LINES)

    def on_line(self, stream: Stream, line: str) -> None:
        if stream == "stdout" and not self.commands_complete.is_set():
            if line.startswith(_COMMAND):
                self.commands.append(line.removeprefix(_COMMAND))
            elif line == _COMMANDS_END:
                self.commands_complete.set()
            return
        exit_codes = _EXIT_CODES.fullmatch(line)
        if exit_codes and (exit_codes[1] or self.ended):
            self.ended += [(exit_codes[2], int(status)) for status in exit_codes[3].split(",") if status]
            return
        if self._tee:
            self._tee(stream, line)
        if stream == "stderr":
            self.stderr.append(line[:_KEPT_CHARACTERS])
        elif line.startswith("{"):
            self.stdout.append(line)
        else:
            self.other.append(line[:_KEPT_CHARACTERS])


def launch(testbed: MpiTestbed, job: Job, tee: OnLine | None = None) -> Outcome:
    """Run the job to its end or its timeout; afterwards no process of it is left in any node.

    `tee` is given each line of output as it comes. TestbedLost is raised only when the testbed itself is gone.
    """
    begin, oom_kills = time.monotonic(), _oom_kills()
    nodes = _nodes_for(job, testbed.nodes)
    output = _Output(tee)
    env = {**job.env, MARK: job.mark}
    outcome = Outcome()
    clean = False
    try:
        mpiexec = testbed.start(nodes[0], _mpiexec(testbed.install, nodes, job), env, output.on_line)
        proxies = _start_proxies(testbed, nodes, env, output, mpiexec, _left(job, begin))
        outcome.exit_code = mpiexec.wait(_left(job, begin))
        clean = outcome.exit_code == 0 and all(proxy.wait(_GRACE_S) is not None for proxy in proxies)
    finally:
        if not clean:
            left = reap(testbed, nodes, job.mark)
    if outcome.exit_code is None:
        mpiexec.wait(_GRACE_S)
    outcome.duration_s = time.monotonic() - begin
    outcome.stdout = [*output.other, *output.stdout]
    outcome.stderr = list(output.stderr)
    if not clean:
        out_of_memory = _oom_kills() > oom_kills
        outcome.reason = "out of memory: the kernel ended a process" if out_of_memory else _reason(outcome, output, job)
        outcome.reason += f"; {left} processes could not be ended" if left else ""
    return outcome


def reap(testbed: Executor, nodes: Sequence[Node], mark: str) -> int:
    """End every process that carries the mark, in all nodes at once; how many are left (0 unless one is stuck)."""
    counts: list[str] = []
    reapers = []
    for node in nodes:
        try:
            command = ["sh", "-c", _REAP, "mpibed-reap", f"{MARK}={mark}"]
            reapers.append(testbed.start(node, command, {}, lambda _stream, line: counts.append(line)))
        except TestbedLost:
            continue  # a node that is gone has no processes
    for reaper in reapers:
        with contextlib.suppress(TestbedLost):
            reaper.wait(_GRACE_S)
    return sum(int(line.split()[1]) for line in counts if re.fullmatch(r"\d+ \d+", line))


def _left(job: Job, begin: float) -> float | None:
    """Seconds left of the job's time, which began then; None for no end."""
    return None if job.timeout_s is None else max(0.0, job.timeout_s - (time.monotonic() - begin))


def _nodes_for(job: Job, nodes: Sequence[Node]) -> list[Node]:
    """The first nodes, filled; on a testbed of one node it takes all ranks."""
    if len(nodes) == 1:
        return [Node(nodes[0].name, job.ranks)]
    count = -(-job.ranks // job.ranks_per_node)
    if count > len(nodes):
        raise TestbedLost(f"the testbed has {len(nodes)} nodes, {job.ranks} ranks need {count}")
    return [Node(node.name, job.ranks_per_node) for node in nodes[:count]]


def _mpiexec(install: Install, nodes: Sequence[Node], job: Job) -> list[str]:
    hosts = ",".join(f"{node.name}:{node.slots}" for node in nodes)
    launcher = [
        f"{install.mpi_bin}/mpiexec",
        "-launcher",
        "manual",
        "-iface",
        install.interface,
        "-hosts",
        hosts,
        "-print-all-exitcodes",
    ]
    return [*launcher, "-n", str(job.ranks), *job.argv]


def _start_proxies(
    testbed: Executor,
    nodes: Sequence[Node],
    env: Mapping[str, str],
    output: _Output,
    mpiexec: Process,
    timeout_s: float | None,
) -> list[Process]:
    begin = time.monotonic()
    while not output.commands_complete.wait(0.05):
        late = timeout_s is not None and time.monotonic() - begin > timeout_s
        if late or mpiexec.wait(0) is not None:
            return []  # mpiexec has said why on stderr
    return [
        testbed.start(node, shlex.split(command), env, output.on_line)
        for node, command in zip(nodes, output.commands, strict=True)
    ]


def _reason(outcome: Outcome, output: _Output, job: Job) -> str:
    """What went wrong, in a sentence, from what Hydra and the ranks wrote and the wait statuses by node."""
    text = "\n".join([*outcome.stdout, *outcome.stderr])
    if outcome.exit_code is None:
        return f"timed out after {job.timeout_s:g} s"
    if re.search(r"execvp error|cannot find executable|No such file or directory\)?$", text, re.MULTILINE):
        return f"the program {job.argv[0]} cannot be started"
    if "no space left" in text.lower():
        return "no space left on the device"
    # Hydra kills the ranks that are left, so those it did not kill are those that began it.
    banner = re.search(r"RUNNING AT (\S+)\n=\s+EXIT CODE: (\d+)", text)
    failed = [(node, status) for node, status in output.ended if status] or (
        [(banner[1], int(banner[2]))] if banner else []
    )
    began = [one for one in failed if not (os.WIFSIGNALED(one[1]) and os.WTERMSIG(one[1]) in _HYDRAS)]
    for node, status in began or failed:
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            name = f" ({signal.Signals(number).name})" if number in {*signal.Signals} else ""  # most have one
            return f"a rank on {node} was killed by signal {number}{name}"
        return f"a rank on {node} ended with exit code {os.waitstatus_to_exitcode(status)}"
    return f"mpiexec ended with exit code {outcome.exit_code}"


def _oom_kills() -> int:
    """Processes the kernel ended for want of memory, in any cgroup of this host (/proc/vmstat since Linux 4.13)."""
    try:
        vmstat = dict(line.split() for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines())
        return int(vmstat["oom_kill"])
    except (OSError, KeyError, ValueError):
        return 0
