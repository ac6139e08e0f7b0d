"""Shared-memory segments of libfabric: what a killed rank leaves is removed, what a live one has stays."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from orchestrator.backends.base import LABEL_OWNER, LABEL_RUN, TestbedSpec
from orchestrator.backends.local import LocalBackend
from orchestrator.launch import reap

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("local")]


def test_ending_a_launch_removes_the_segments_that_no_process_has(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    stale = [Path("/dev/shm/99999999:0:0"), Path("/dev/shm/mpich_shm_of_a_test_0")]
    live = Path(f"/dev/shm/{os.getpid()}:0:0")
    testbed = LocalBackend().up(TestbedSpec(1, 1), {LABEL_RUN: "segments", LABEL_OWNER: "tests"})
    try:
        for segment in (*stale, live):
            segment.write_bytes(bytes(4096))
        with live.open("r+b") as file, mmap.mmap(file.fileno(), 4096):
            assert reap(testbed, testbed.nodes, "no/such/launch") == 0
        assert [segment.exists() for segment in (*stale, live)] == [False, False, True]
    finally:
        testbed.close()
        for segment in (*stale, live):
            segment.unlink(missing_ok=True)
