"""What goes wrong in containers: each fault ends in a record with its reason, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest

from orchestrator import experiment, manifest, runner, transport
from orchestrator.backends.docker import DockerBackend, DockerTestbed
from orchestrator.events import Event, LaunchEnded, RunStarted
from orchestrator.launch import Job, Outcome, launch
from tests.integration.conftest import Up

pytestmark = pytest.mark.docker

MPIBED = Path(sys.executable).parent / "mpibed"
MANIFEST = """
schema: 1
name: faults
testbed: {nodes: 2, resources: {memory: MEMORY}}
benchmarks:
  - benchmark: p2p.latency
    parameters: {exchanges: 1000}
    sweep: {matrix: {message_bytes: [SIZE]}}
launches: LAUNCHES
repetitions: 20
warmup: 1
timeout: 60s
"""


def _manifest(folder: Path, *, launches: int = 6, memory: str = "512MiB", size: str = "8") -> Path:
    path = folder / "faults.yaml"
    path.write_text(MANIFEST.replace("MEMORY", memory).replace("LAUNCHES", str(launches)).replace("SIZE", size))
    return path


def _launch(testbed: DockerTestbed, *argv: str, timeout_s: float = 30.0) -> Outcome:
    return launch(testbed, Job(argv, 3, 1, transport.ENVIRONMENT["tcp"], timeout_s, "faults/launch/1"))


def _processes(testbed: DockerTestbed) -> list[str]:
    """What runs in the nodes beside init and the command that keeps a node up."""
    client = docker.from_env()
    found = []
    for container in testbed.containers.values():
        found += [line[-1] for line in client.containers.get(container).top()["Processes"]]
    client.close()
    return [command for command in found if "sleep infinity" not in command]


def _until(condition: Callable[[], object], what: str, deadline_s: float = 60.0) -> None:
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.02)


def test_a_rank_that_dies_ends_its_launch_and_the_other_ranks(up: Up, run_id: str) -> None:
    testbed = up(run_id, 3)
    outcome = _launch(testbed, "sh", "-c", 'if [ "$PMI_RANK" = 1 ]; then kill -SEGV $$; fi; sleep 60')
    assert outcome.reason == "a rank on n1 was killed by signal 11 (SIGSEGV)"
    assert _processes(testbed) == []


def test_a_rank_that_fails_is_told_with_its_last_words(up: Up, run_id: str) -> None:
    testbed = up(run_id, 3)
    outcome = _launch(testbed, "sh", "-c", 'echo "cannot go on" >&2; exit 7')
    assert outcome.reason == "a rank on n0 ended with exit code 7"
    assert "cannot go on" in outcome.stderr
    assert _processes(testbed) == []


def test_a_launch_that_hangs_is_ended_in_every_node(up: Up, run_id: str) -> None:
    testbed = up(run_id, 3)
    outcome = _launch(testbed, "sh", "-c", "trap '' TERM INT; echo waiting; (sleep 60); sleep 60", timeout_s=2.0)
    assert outcome.reason == "timed out after 2 s"
    assert "waiting" in outcome.stdout
    assert _processes(testbed) == []


def test_a_missing_program_is_named(up: Up, run_id: str) -> None:
    testbed = up(run_id, 3)
    outcome = _launch(testbed, "/opt/mpibed/bin/no_such_program")
    assert outcome.reason == "the program /opt/mpibed/bin/no_such_program cannot be started"
    assert _processes(testbed) == []


def test_a_rank_that_outgrows_its_node_is_an_out_of_memory_failure(up: Up, run_id: str) -> None:
    testbed = up(run_id, 3, memory_bytes=32 << 20)
    outcome = _launch(testbed, "sh", "-c", '[ "$PMI_RANK" = 1 ] && x=$(head -c 200m /dev/zero | tr "\\0" x); sleep 20')
    assert outcome.reason == "out of memory: the kernel ended a process"
    assert _processes(testbed) == []


def test_messages_that_cannot_fit_in_a_node_are_refused_by_the_program(
    docker_backend: DockerBackend, tmp_path: Path
) -> None:
    asked = _manifest(tmp_path, launches=1, memory="24MiB", size="256MiB")
    resolved = experiment.resolve(manifest.load(asked))
    result = runner.run(resolved, docker_backend, runner.Options(tmp_path / "results"), lambda _: None)
    assert (result.ok, result.failed) == (0, 1)
    (record,) = result.folder.launches()
    assert "no memory for" in record["reason"]


def test_a_container_killed_from_outside_ends_the_run_and_resuming_completes_it(
    docker_backend: DockerBackend, tmp_path: Path
) -> None:
    resolved = experiment.resolve(manifest.load(_manifest(tmp_path)))
    options = runner.Options(tmp_path / "results")
    runs: list[str] = []

    def kill_a_node_after_the_first_launch(event: Event) -> None:
        if isinstance(event, RunStarted):
            runs.append(event.run)
        if isinstance(event, LaunchEnded) and event.launch == 0:
            client = docker.from_env()
            client.containers.get(f"mpibed-{runs[0]}-n1").kill()
            client.close()

    result = runner.run(resolved, docker_backend, options, kill_a_node_after_the_first_launch)
    assert (result.ok, result.failed) == (1, 1)
    assert "n1" in result.lost
    assert [found for found in docker_backend.find() if found.run == runs[0]] == []

    again = runner.run(resolved, docker_backend, options, lambda _: None)
    assert again.folder.path == result.folder.path
    assert (again.ok, again.failed, again.lost) == (6, 0, "")


@dataclass
class Engine:
    """A Docker engine of the test's own, so that it can be stopped."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"unix://{self.folder}/docker.sock"

    def start(self) -> None:
        options = ["--host", self.address, "--data-root", self.folder / "data"]
        options += ["--exec-root", self.folder / "exec", "--pidfile", self.folder / "pid"]
        # In a network namespace of its own: two engines on one host would take each other's bridge away.
        alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up; exec dockerd "$@"', "dockerd"]
        with (self.folder / "log").open("ab") as log:
            command = list(map(str, [*alone, *options]))
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        _until(lambda: self._cli("version").returncode == 0, "the engine")

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
            self.process = None

    def images_from(self, tags: list[str]) -> None:
        """Take over images from the engine that is there."""
        with subprocess.Popen(["docker", "save", *tags], stdout=subprocess.PIPE) as save:
            loaded = subprocess.run(["docker", "-H", self.address, "load"], stdin=save.stdout, capture_output=True)
        assert loaded.returncode == 0, loaded.stderr

    def _cli(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["docker", "-H", self.address, *words], capture_output=True, check=False, timeout=60)


@pytest.fixture
def engine(docker_backend: DockerBackend) -> Iterator[Engine]:
    if os.geteuid() != 0:
        pytest.skip("an engine of the test's own needs root")
    client = docker.from_env()
    tags = [tag for image in client.images.list("mpibed/*") for tag in image.tags]
    client.close()
    own = Engine(Path(tempfile.mkdtemp(prefix="mpibed-")))  # not tmp_path: a socket's path has 108 characters at most
    try:
        own.start()
        own.images_from(
            [*(tag for tag in tags if tag.startswith("mpibed/base")), docker_backend.build(print).description]
        )
        yield own
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            own.stop()
        shutil.rmtree(own.folder, ignore_errors=True)


def test_an_engine_that_stops_in_mid_run_loses_nothing(engine: Engine, tmp_path: Path) -> None:
    path = _manifest(tmp_path, launches=30)
    command = [MPIBED, "run", path, "--backend", "docker", "--results", tmp_path / "results"]
    env = {**os.environ, "DOCKER_HOST": engine.address}
    with subprocess.Popen(
        list(map(str, command)), env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        _until(lambda: len(list(tmp_path.glob("results/faults/*/raw/*/*.1.json"))) >= 2, "the second launch")
        engine.stop()
        _, errors = run.communicate(timeout=120)
    assert run.returncode == 1
    assert "mpibed: the run ended early" in errors
    assert "Traceback" not in errors
    finished = {path: path.stat().st_mtime_ns for path in tmp_path.glob("results/faults/*/raw/*/*.1.json")}
    assert len(finished) >= 2

    engine.start()
    subprocess.run([MPIBED, "gc"], env=env, check=True, capture_output=True)
    client = docker.DockerClient(engine.address)
    assert client.containers.list(all=True, filters={"label": "mpibed.run"}) == []
    assert client.networks.list(filters={"label": "mpibed.run"}) == []
    client.close()

    subprocess.run(list(map(str, command)), env=env, check=True, capture_output=True, timeout=200)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
