"""Owners: who is still alive, and who must not be taken for somebody else."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from orchestrator import owner

OTHER_PROCESS = "from orchestrator import owner; print(owner.this_process(), flush=True); input()"


def test_this_process_is_alive():
    assert owner.is_alive(owner.this_process())


def test_a_process_is_alive_until_it_ends_and_a_zombie_is_not():
    child = subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin and child.stdout
    label = child.stdout.readline().strip()
    assert owner.is_alive(label)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    assert not owner.is_alive(label)
    child.wait()
    assert not owner.is_alive(label)
    child.stdin.close()
    child.stdout.close()


@pytest.mark.parametrize("part", [2, 3])
def test_a_process_that_got_the_same_pid_later_is_not_taken_for_it(part):
    parts = owner.this_process().split("/")
    parts[part] = "12345"
    assert not owner.is_alive("/".join(parts))


def test_a_process_of_another_host_cannot_be_asked_and_counts_as_alive():
    assert owner.is_alive("some-other-host/1/1/1")


def test_a_testbed_somebody_asked_for_lives_until_taken_down():
    assert owner.is_alive(owner.INTERACTIVE)


@pytest.mark.parametrize(
    "label", ["", f"{socket.gethostname()}/", f"{socket.gethostname()}/x/1/1", socket.gethostname()]
)
def test_a_label_that_names_nobody_is_nobodys(label):
    assert not owner.is_alive(label)
