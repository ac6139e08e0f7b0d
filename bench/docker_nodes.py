"""How quickly containers come and go."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import docker

from bench.measure import ratio
from orchestrator import owner, records
from orchestrator.backends.base import LABEL_OWNER, LABEL_RUN, TestbedSpec
from orchestrator.backends.docker import DockerBackend

ROUNDS = 3


def main() -> None:
    """8 and 64 containers up to ready, and down, against the same created in parallel through the bare SDK"""
    backend = DockerBackend()
    image = backend.build(print).identity
    for nodes in (8, 64):
        ups, downs, bare_ups, bare_downs = [], [], [], []
        for _ in range(ROUNDS):
            up_s, down_s = _ours(backend, nodes)
            bare_up_s, bare_down_s = _bare(image, nodes)
            ups.append(up_s)
            downs.append(down_s)
            bare_ups.append(bare_up_s)
            bare_downs.append(bare_down_s)
        ratio(f"{nodes} containers up", ups, "bare SDK", bare_ups, "at most 1.15x")
        ratio(f"{nodes} containers down", downs, "bare SDK", bare_downs, "at most 1.15x")


def _ours(backend: DockerBackend, nodes: int) -> tuple[float, float]:
    labels = {LABEL_RUN: records.new_run_id(), LABEL_OWNER: owner.this_process()}
    begin = time.perf_counter()
    testbed = backend.up(TestbedSpec(nodes, 1), labels)
    ready = time.perf_counter()
    testbed.close()
    return ready - begin, time.perf_counter() - ready


def _bare(image: str, nodes: int) -> tuple[float, float]:
    client = docker.from_env(max_pool_size=nodes)
    name = f"mpibed-bench-{records.new_run_id()}"
    begin = time.perf_counter()
    network = client.networks.create(name, driver="bridge")
    with ThreadPoolExecutor(nodes) as pool:

        def create(number: int) -> object:
            return client.containers.run(
                image, ["sleep", "infinity"], detach=True, init=True, network=name, name=f"{name}-{number}"
            )

        containers = list(pool.map(create, range(nodes)))
        ready = time.perf_counter()
        list(pool.map(lambda container: container.remove(force=True), containers))
    network.remove()
    ended = time.perf_counter()
    client.close()
    return ready - begin, ended - ready
