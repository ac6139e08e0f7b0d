"""The Docker backend against a real engine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.models.containers import Container
from docker.models.networks import Network

from orchestrator.backends.base import LABEL_OWNER, LABEL_RUN, Node, TestbedSpec
from orchestrator.backends.docker import DockerBackend, DockerTestbed
from orchestrator.errors import MpibedError, TestbedLost, UsageError

pytestmark = pytest.mark.docker

Up = Callable[..., DockerTestbed]
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def engine(docker_backend: DockerBackend) -> docker.DockerClient:
    """The engine itself, to see what is really there."""
    return docker.from_env()


@pytest.fixture(scope="module")
def shared(docker_backend: DockerBackend) -> Iterator[DockerTestbed]:
    """Two nodes for the tests that change nothing of note in them."""
    run = "test-shared"
    docker_backend.remove(run)
    testbed = docker_backend.up(TestbedSpec(nodes=2, ranks_per_node=2), {LABEL_RUN: run, LABEL_OWNER: "tests"})
    yield testbed
    testbed.close()


class Output:
    """What a process wrote, and how it ended."""

    def __init__(self, testbed: DockerTestbed, node: Node, argv: Sequence[str], **env: str) -> None:
        self.lines: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self.process = testbed.start(node, argv, env, lambda stream, line: self.lines[stream].append(line))

    def ended(self) -> tuple[int | None, list[str], list[str]]:
        status = self.process.wait(timeout_s=60)
        return status, self.lines["stdout"], self.lines["stderr"]


def run(testbed: DockerTestbed, script: str, node: int = 0, **env: str) -> tuple[int | None, list[str], list[str]]:
    return Output(testbed, testbed.nodes[node], ["bash", "-c", script], **env).ended()


def things(engine: docker.DockerClient, run: str) -> tuple[list[Container], list[Network]]:
    filters: Any = {"label": f"{LABEL_RUN}={run}"}
    return engine.containers.list(all=True, filters=filters), engine.networks.list(filters=filters)


# A testbed's life


def test_a_testbed_is_made_of_labelled_containers_and_a_network_and_leaves_nothing(
    engine: docker.DockerClient, up: Up, run_id: str
) -> None:
    testbed = up(run_id, nodes=4, ranks_per_node=2)
    assert testbed.nodes == (Node("n0", 2), Node("n1", 2), Node("n2", 2), Node("n3", 2))
    containers, networks = things(engine, run_id)
    assert sorted(str(c.name) for c in containers) == [f"mpibed-{run_id}-n{i}" for i in range(4)]
    assert [network.name for network in networks] == [f"mpibed-{run_id}"]
    assert all(c.labels[LABEL_OWNER] == "tests" for c in containers)
    assert all(not c.ports for c in containers)
    testbed.close()
    assert things(engine, run_id) == ([], [])
    testbed.close()


def test_nodes_know_their_names_and_find_each_other(shared: DockerTestbed) -> None:
    assert run(shared, "hostname", node=1) == (0, ["n1"], [])
    address = shared.facts(shared.nodes[1])["address"]
    status, out, _ = run(shared, "getent hosts n1")
    assert (0, address) == (status, out[0].split()[0])


def test_a_user_without_rights_runs_everything(shared: DockerTestbed) -> None:
    _, out, _ = run(shared, "id -u; grep -h -E '^(CapEff|CapBnd|NoNewPrivs):' /proc/self/status")
    assert out == ["1000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"]


def test_a_node_has_a_folder_to_write_in(shared: DockerTestbed) -> None:
    assert run(shared, "pwd; touch here && rm here") == (0, ["/scratch"], [])


def test_facts_name_the_image_and_the_engine(shared: DockerTestbed, docker_backend: DockerBackend) -> None:
    facts = shared.facts(shared.nodes[0])
    build = docker_backend.build(print)
    assert (build.description, build.identity) == (facts["image"], facts["image_digest"])
    assert facts["engine"].startswith("Docker ")
    assert facts["network"] == "mpibed-test-shared"


def test_limits_asked_for_are_in_force(engine: docker.DockerClient, up: Up, run_id: str) -> None:
    testbed = up(run_id, cpus=0.5, memory_bytes=128 * MIB, shared_memory_bytes=32 * MIB)
    _, out, _ = run(
        testbed,
        "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null;"
        "cat /sys/fs/cgroup/cpu.max 2>/dev/null || cat /sys/fs/cgroup/cpu/cpu.cfs_{quota,period}_us;"
        "df --output=size -B1 /dev/shm | tail -1",
    )
    memory, *quota_and_period, shm = " ".join(out).split()
    quota, period = map(int, quota_and_period)
    assert (int(memory), quota / period, int(shm)) == (128 * MIB, 0.5, 32 * MIB)
    facts = testbed.facts(testbed.nodes[0])
    assert (facts["cpus"], facts["memory_bytes"], facts["shared_memory_bytes"]) == (
        "0.5",
        str(128 * MIB),
        str(32 * MIB),
    )


def test_what_the_engine_refuses_is_said_and_leaves_nothing(engine: docker.DockerClient, up: Up, run_id: str) -> None:
    with pytest.raises(MpibedError, match=f"creating container mpibed-{run_id}-n[01] failed: .*CPUs"):
        up(run_id, nodes=2, cpus=4096)
    assert things(engine, run_id) == ([], [])


def test_two_testbeds_at_once_do_not_meet(up: Up, run_id: str) -> None:
    one, other = up(f"{run_id}-a", nodes=2), up(f"{run_id}-b", nodes=2)

    def knock(target: DockerTestbed) -> tuple[int | None, list[str], list[str]]:
        """From the first node of `one` at the last node of a testbed, where no one listens."""
        address = target.facts(target.nodes[1])["address"]
        return run(one, f"timeout 3 bash -c '</dev/tcp/{address}/9'")

    assert one.facts(one.nodes[0])["network"] != other.facts(other.nodes[0])["network"]
    status, _, err = knock(one)
    assert (status, "Connection refused" in err[0]) == (1, True)
    assert knock(other)[0] == 124  # no answer at all
    _, (found,), _ = run(one, "getent hosts n1")
    assert found.split()[0] == one.facts(one.nodes[1])["address"]
    one.close()
    assert run(other, "true")[0] == 0


# Names that are taken


def test_a_taken_container_name_is_reported_and_nothing_foreign_is_removed(
    engine: docker.DockerClient, up: Up, run_id: str, docker_backend: DockerBackend
) -> None:
    image = docker_backend.build(print).description
    foreign = engine.containers.create(image, ["true"], name=f"mpibed-{run_id}-n2")
    try:
        with pytest.raises(MpibedError, match=rf"mpibed-{run_id}-n2.*in use.*mpibed gc"):
            up(run_id, nodes=4)
        assert things(engine, run_id) == ([], [])
        foreign.reload()
    finally:
        foreign.remove()


def test_a_taken_network_name_is_reported_and_nothing_foreign_is_removed(
    engine: docker.DockerClient, up: Up, run_id: str
) -> None:
    foreign = engine.networks.create(f"mpibed-{run_id}")
    try:
        with pytest.raises(MpibedError, match=rf"mpibed-{run_id}.*exists.*mpibed gc"):
            up(run_id, nodes=2)
        assert things(engine, run_id) == ([], [])
        foreign.reload()
    finally:
        foreign.remove()


def test_the_same_run_cannot_be_up_twice_and_the_first_stays(up: Up, run_id: str) -> None:
    first = up(run_id)
    with pytest.raises(MpibedError, match="mpibed gc"):
        up(run_id)
    assert run(first, "true")[0] == 0


# Attach, find, remove


def test_a_testbed_is_found_attached_to_and_removed_by_its_labels(
    engine: docker.DockerClient, docker_backend: DockerBackend, up: Up, run_id: str
) -> None:
    up(run_id, nodes=11, ranks_per_node=3)
    (found,) = (found for found in docker_backend.find() if found.run == run_id)
    assert (found.owner, found.backend, found.what) == ("tests", "docker", "11 containers, 1 network")
    attached = DockerBackend().attach(run_id)
    assert attached.nodes == tuple(Node(f"n{i}", 3) for i in range(11))
    assert run(attached, "hostname", node=10) == (0, ["n10"], [])
    removed = docker_backend.remove(run_id)
    assert sorted(removed) == sorted(
        [f"network mpibed-{run_id}", *(f"container mpibed-{run_id}-n{i}" for i in range(11))]
    )
    assert things(engine, run_id) == ([], [])
    assert docker_backend.remove(run_id) == []


def test_removing_from_several_sides_at_once_is_harmless(
    engine: docker.DockerClient, docker_backend: DockerBackend, up: Up, run_id: str
) -> None:
    testbed = up(run_id, nodes=4)
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(docker_backend.remove, run_id) for _ in range(3)] + [pool.submit(testbed.close)]:
            done.result()
    assert things(engine, run_id) == ([], [])


def test_there_is_nothing_to_attach_to(docker_backend: DockerBackend) -> None:
    with pytest.raises(UsageError, match="no Docker testbed of run 'no-such-run'"):
        docker_backend.attach("no-such-run")


# Processes


def test_output_and_status_come_back(shared: DockerTestbed) -> None:
    status, out, err = run(shared, 'echo "one $WORD"; echo two; echo three >&2; exit 7', WORD="word")
    assert (status, out, err) == (7, ["one word", "two"], ["three"])


def test_a_line_may_come_in_parts_and_need_not_end(shared: DockerTestbed) -> None:
    assert run(shared, "printf one; sleep 0.2; printf ' line\\n\\nlast'") == (0, ["one line", "", "last"], [])


def test_a_line_may_be_very_long(shared: DockerTestbed) -> None:
    status, out, _ = run(shared, f"head -c {20 * MIB} /dev/zero | tr '\\0' x; echo; echo end")
    assert (status, [len(line) for line in out], out[-1]) == (0, [20 * MIB, 3], "end")


def test_bytes_that_are_no_text_are_replaced(shared: DockerTestbed) -> None:
    status, out, _ = run(shared, "printf 'a\\xff\\xfeb\\0c\\r\\n'; head -c 100000 /dev/urandom")
    assert (status, out[0]) == (0, "a\ufffd\ufffdb\0c\r")


def test_output_that_comes_at_once_is_not_lost(shared: DockerTestbed) -> None:
    outputs = [Output(shared, shared.nodes[i % 2], ["echo", str(i)]) for i in range(40)]
    assert [(0, [str(i)], []) for i in range(40)] == [output.ended() for output in outputs]


def test_waiting_can_have_an_end_before_the_process_has(shared: DockerTestbed) -> None:
    output = Output(shared, shared.nodes[0], ["bash", "-c", "echo $$; exec sleep 60"])
    while not output.lines["stdout"]:
        assert output.process.wait(timeout_s=0.05) is None
    assert run(shared, f"kill -KILL {output.lines['stdout'][0]}")[0] == 0
    assert output.ended()[0] == 137


def test_a_process_killed_in_a_live_node_is_not_a_lost_node(shared: DockerTestbed) -> None:
    assert run(shared, "kill -KILL $$")[0] == 137


def test_an_error_in_the_listener_is_the_waiters(shared: DockerTestbed) -> None:
    def listen(stream: str, line: str) -> None:
        raise ValueError(line)

    process = shared.start(shared.nodes[0], ["echo", "word"], {}, listen)
    with pytest.raises(ValueError, match="word"):
        process.wait(timeout_s=30)


@pytest.mark.parametrize("how", ["kill", "remove"])
def test_a_container_that_dies_is_reported_and_the_rest_is_cleaned_up(
    engine: docker.DockerClient, up: Up, run_id: str, how: str
) -> None:
    testbed = up(run_id, nodes=2)
    output = Output(testbed, testbed.nodes[1], ["bash", "-c", "echo begun; sleep 60"])
    while not output.lines["stdout"]:
        assert output.process.wait(timeout_s=0.05) is None
    container = engine.containers.get(f"mpibed-{run_id}-n1")
    container.kill() if how == "kill" else container.remove(force=True)
    with pytest.raises(TestbedLost, match="node n1"):
        output.process.wait(timeout_s=30)
    with pytest.raises(TestbedLost, match="node n1 is gone"):
        testbed.start(testbed.nodes[1], ["true"], {}, lambda stream, line: None)
    assert run(testbed, "true")[0] == 0
    testbed.close()
    assert things(engine, run_id) == ([], [])


def test_a_file_is_put_into_every_node_and_can_be_run(shared: DockerTestbed, tmp_path: Path) -> None:
    program = tmp_path / "own program"
    program.write_text("#!/bin/sh\necho from $(hostname)\n")
    program.chmod(0o600)
    place = shared.put(program)
    for node in shared.nodes:
        assert Output(shared, node, [place]).ended() == (0, [f"from {node.name}"], [])
    assert place == shared.put(program)


def test_a_file_that_is_not_there_cannot_be_put(shared: DockerTestbed, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing"):
        shared.put(tmp_path / "nothing")


# The image and the engine


def test_the_image_is_small_and_has_no_compiler(
    engine: docker.DockerClient, docker_backend: DockerBackend, shared: DockerTestbed
) -> None:
    image = engine.images.get(docker_backend.build(print).description)
    assert image.attrs["Size"] <= 200e6
    assert run(shared, "compgen -c | grep -E '^(cc|c99|gcc.*|g[+][+].*|clang.*|tcc|ld|as|make|cmake|mpicc)$'")[:2] == (
        1,
        [],
    )


def test_mpi_and_the_programs_are_there_and_find_their_libraries(shared: DockerTestbed) -> None:
    place = shared.install
    status, out, _ = run(shared, f"for p in {place.mpi_lib}/libmpi.so.12 {place.programs}/*; do ldd $p; done")
    assert (status, [line for line in out if "not found" in line]) == (0, [])
    assert any(f"{place.mpi_lib}/libmpi.so.12" in line for line in out)
    assert run(shared, f"{place.mpi_bin}/mpiexec -n 2 hostname") == (0, ["n0", "n0"], [])


def test_building_again_builds_nothing(docker_backend: DockerBackend) -> None:
    said: list[str] = []
    assert docker_backend.build(said.append) == docker_backend.build(said.append)
    assert said == []


def test_the_image_can_be_made_from_the_command_line(docker_backend: DockerBackend) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator.backends.image"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == docker_backend.build(print).description


def test_checks_find_all_that_is_needed(docker_backend: DockerBackend) -> None:
    assert [check.name for check in docker_backend.checks() if check.required and not check.ok] == []


def test_an_engine_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    (check,) = DockerBackend().checks()
    assert (check.ok, check.required) == (False, True)
    for ask in (DockerBackend().find, lambda: DockerBackend().build(print)):
        with pytest.raises(MpibedError, match=r"Docker does not answer .*DOCKER_HOST"):
            ask()


def test_nodes_share_a_folder_when_asked_and_it_goes_with_them(
    docker_backend: DockerBackend, up: Up, run_id: str, engine: docker.DockerClient
) -> None:
    testbed = up(run_id, 2, shared_directory=True)
    path = f"{testbed.install.shared}/greeting"
    assert run(testbed, f"echo hello > {path}", node=0)[0] == 0
    assert run(testbed, f"cat {path}", node=1) == (0, ["hello"], [])
    assert "1 volume" in next(found.what for found in docker_backend.find() if found.run == run_id)
    testbed.close()
    assert engine.volumes.list(filters={"label": f"{LABEL_RUN}={run_id}"}) == []
