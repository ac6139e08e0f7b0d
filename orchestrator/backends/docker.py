"""Testbeds of containers on one Docker engine: a container per node, and a bridge network of their own per testbed.

Labels on the containers and the network are the only state. Containers run as the image's ordinary user without any
capability. The engine is the one that DOCKER_HOST names, or else this machine's own.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import docker
from docker.errors import APIError, DockerException, NotFound
from requests import RequestException

from orchestrator.backends import image as node_image
from orchestrator.backends.base import LABEL_OWNER, LABEL_RUN, Build, Check, Found, Install, Node, TestbedSpec
from orchestrator.backends.docker_process import DockerProcess, reason
from orchestrator.errors import MissingPiece, MpibedError, TestbedLost, UsageError

if TYPE_CHECKING:
    from docker import APIClient

    from orchestrator.backends.base import OnLine, Say
    from orchestrator.backends.image import NodeImage

LABEL_NODE = "mpibed.node"
LABEL_SLOTS = "mpibed.slots"
INSTALL = Install(
    programs="/opt/mpibed/bin",
    mpi_bin="/opt/mpich/bin",
    mpi_lib="/opt/mpich/lib",
    interface="eth0",
    shared="/shared",
)  # as images/node/Dockerfile lays it out
SCRATCH = "/scratch"
USER_ID = 1000
_AT_A_TIME = 64  # requests to the engine
Item = TypeVar("Item")


class DockerBackend:
    """Makes, finds and removes testbeds of containers."""

    name = "docker"

    def __init__(self) -> None:
        self._image: NodeImage | None = None  # the one last made ready: what `build` told of is what `up` uses

    def checks(self) -> list[Check]:
        try:
            api = _connect(timeout_s=3)
            info = api.info()
            image = node_image.find(api)
            remedy = "" if image else node_image.remedy(api)
        except (MpibedError, DockerException, RequestException, OSError) as error:
            return [
                Check("Docker engine", False, reason(error), "start Docker, or set DOCKER_HOST to where it listens")
            ]
        limits = bool(info.get("MemoryLimit") and info.get("CpuCfsQuota"))
        return [
            Check("Docker engine", True, f"{info['ServerVersion']} with {info['Driver']}"),
            Check("node image", image is not None, image.tag if image else "not built yet", remedy, False),
            Check(
                "limits of nodes",
                limits,
                "memory and processor time" if limits else "the engine cannot limit memory or processor time",
                "enable the memory and cpu control groups, or ask for no limits",
                False,
            ),
        ]

    def build(self, say: Say) -> Build:
        with _engine("making the node image"):
            self._image = node_image.ensure(self._api, say)
        return Build(self._image.identity, self._image.tag)

    def up(self, spec: TestbedSpec, labels: Mapping[str, str]) -> DockerTestbed:
        image = self._image.tag if self._image else self.build(lambda _: None).description
        run = labels[LABEL_RUN]
        network = f"mpibed-{run}"
        with _engine(f"creating network {network}", _network_refusal):
            network_id = self._api.create_network(network, "bridge", check_duplicate=True, labels=dict(labels))["Id"]
        testbed = DockerTestbed(self._api, run, {network_id: network})
        try:
            if spec.shared_directory:
                testbed.add_volume(network, labels)
            host = self._api.create_host_config(
                init=True,  # reaps what a killed launch leaves
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                network_mode=network,
                nano_cpus=None if spec.cpus is None else round(spec.cpus * 1e9),
                mem_limit=spec.memory_bytes,
                memswap_limit=spec.memory_bytes,  # that is: no swap on top
                shm_size=spec.shared_memory_bytes,
                binds=[f"{name}:{INSTALL.shared}" for name in testbed.volumes],
            )
            nodes = [Node(f"n{index}", spec.ranks_per_node) for index in range(spec.nodes)]
            _in_parallel(lambda node: testbed.add(node, image, host, labels), nodes)
        except BaseException as error:
            try:
                testbed.close()
            except MpibedError as remains:
                raise MpibedError(f"{error}\n{remains}") from error
            raise
        return testbed

    def attach(self, run: str) -> DockerTestbed:
        containers, networks, volumes = self._labelled(f"{LABEL_RUN}={run}")
        nodes = {container["Id"]: container["Labels"] for container in containers if LABEL_NODE in container["Labels"]}
        if not nodes or not networks:
            raise UsageError(f"no Docker testbed of run {run!r}; `mpibed gc` lists what there is")
        testbed = DockerTestbed(self._api, run, {network["Id"]: network["Name"] for network in networks})
        testbed.volumes += [volume["Name"] for volume in volumes]
        for container, labels in nodes.items():
            testbed.containers[Node(labels[LABEL_NODE], int(labels[LABEL_SLOTS]))] = container
        return testbed

    def find(self) -> list[Found]:
        pieces = defaultdict[tuple[str, str], list[str]](list)
        for kind, things in zip(("container", "network", "volume"), self._labelled(LABEL_RUN), strict=True):
            for thing in things:
                labels = thing["Labels"]
                pieces[labels[LABEL_RUN], labels.get(LABEL_OWNER, "")].append(kind)
        return [
            Found(run, owner, self.name, ", ".join(f"{n} {kind}{'s' * (n != 1)}" for kind, n in Counter(kinds).items()))
            for (run, owner), kinds in sorted(pieces.items())
        ]

    def remove(self, run: str) -> list[str]:
        containers, networks, volumes = self._labelled(f"{LABEL_RUN}={run}")
        # A container that is just being removed has no name any more.
        names = {each["Id"]: (each["Names"] or [each["Id"]])[0].lstrip("/") for each in containers}
        networks_by_id = {network["Id"]: network["Name"] for network in networks}
        return _remove(self._api, run, names, networks_by_id, [volume["Name"] for volume in volumes])

    @cached_property
    def _api(self) -> APIClient:
        return _connect(timeout_s=120)

    def _labelled(self, label: str) -> tuple[list[dict[str, Any]], ...]:
        """Containers, networks and volumes with that label."""
        with _engine("asking for what carries mpibed's labels"):
            filters = {"label": label}
            volumes = self._api.volumes(filters=filters)["Volumes"] or []
            return self._api.containers(all=True, filters=filters), self._api.networks(filters=filters), volumes


class DockerTestbed:
    """The containers of one run, their network, and the volume they share if it was asked for."""

    install = INSTALL

    def __init__(self, api: APIClient, run: str, networks: Mapping[str, str]) -> None:
        self.containers: dict[Node, str] = {}
        self.volumes: list[str] = []
        self._api = api
        self._run = run
        self._networks = networks  # names by id

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(sorted(self.containers, key=lambda node: int(node.name[1:])))

    def add_volume(self, name: str, labels: Mapping[str, str]) -> None:
        """Create the volume that all nodes share."""
        with _engine(f"creating volume {name}"):
            self._api.create_volume(name, labels=dict(labels))
        self.volumes.append(name)

    def add(self, node: Node, image: str, host: Any, labels: Mapping[str, str]) -> None:
        """Create and start the container of one node; it is ready, and has an address, when this returns."""
        (network,) = self._networks.values()
        name = f"{network}-{node.name}"
        endpoint: Any = {network: self._api.create_endpoint_config(aliases=[node.name])}
        with _engine(f"creating container {name}", _container_refusal):
            container = self._api.create_container(
                image,
                ["sleep", "infinity"],
                name=name,
                hostname=node.name,
                labels={**labels, LABEL_NODE: node.name, LABEL_SLOTS: str(node.slots)},
                host_config=host,
                networking_config=self._api.create_networking_config(endpoint),
            )["Id"]
            self.containers[node] = container
            self._api.start(container)
            seen = self._api.inspect_container(container)
        state = seen["State"]
        if not (state["Running"] and seen["NetworkSettings"]["Networks"][network]["IPAddress"]):
            raise MpibedError(f"container {name} did not come up: {state['Status']}, {state['Error'] or 'no reason'}")

    def start(self, node: Node, argv: Sequence[str], env: Mapping[str, str], on_line: OnLine) -> DockerProcess:
        container = self.containers[node]
        try:
            process = self._api.exec_create(container, list(argv), environment=dict(env))["Id"]
            # Not the SDK's own exec_start: it reads from the socket below the HTTP response, and so can miss output
            # that came in one packet with the response's header.
            output = self._api.post(
                f"{self._api.base_url}/v{self._api.api_version}/exec/{process}/start",
                json={"Detach": False, "Tty": False},
                stream=True,
                timeout=None,
            )
        except APIError as error:
            raise TestbedLost(f"node {node.name} is gone: {reason(error)}") from error
        except (DockerException, RequestException) as error:
            raise TestbedLost(
                f"the Docker engine that holds node {node.name} does not answer: {reason(error)}"
            ) from error
        if not output.ok:
            raise TestbedLost(f"node {node.name} is gone: {output.text.strip()}")
        return DockerProcess(self._api, node, container, process, output, on_line)

    def put(self, source: Path) -> str:
        try:
            content = source.read_bytes()
        except OSError as error:
            raise UsageError(f"cannot copy {source} into the nodes: {error.strerror}") from error
        folder = f"put-{hashlib.sha256(content).hexdigest()[:16]}"  # two files of one name do not meet
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name, kind, data in (
                (folder, tarfile.DIRTYPE, b""),
                (f"{folder}/{source.name}", tarfile.REGTYPE, content),
            ):
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode, entry.uid, entry.gid = kind, 0o755, USER_ID, USER_ID
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
        with _engine(f"copying {source.name} into the nodes"):
            _in_parallel(
                lambda container: self._api.put_archive(container, SCRATCH, archive.getvalue()),
                list(self.containers.values()),
            )
        return f"{SCRATCH}/{folder}/{source.name}"

    def facts(self, node: Node) -> dict[str, str]:
        with _engine(f"asking about node {node.name}"):
            seen = self._api.inspect_container(self.containers[node])
            engine = self._engine_facts
        host = seen["HostConfig"]
        network = next(iter(self._networks.values()))
        return engine | {
            "image": seen["Config"]["Image"],
            "image_digest": seen["Image"],
            "container": seen["Id"],
            "cpus": f"{host['NanoCpus'] / 1e9:g}" if host["NanoCpus"] else "",
            "memory_bytes": str(host["Memory"] or ""),
            "shared_memory_bytes": str(host["ShmSize"]),
            "network": network,
            "address": seen["NetworkSettings"]["Networks"].get(network, {}).get("IPAddress", ""),
        }

    @cached_property
    def _engine_facts(self) -> dict[str, str]:
        info = self._api.info()
        return {"engine": f"Docker {info['ServerVersion']}", "storage_driver": info["Driver"]}

    def close(self) -> None:
        """Raises MpibedError when something may remain."""
        containers = {id_: node.name for node, id_ in self.containers.items()}
        _remove(self._api, self._run, containers, self._networks, self.volumes)


# The engine


def _connect(timeout_s: int) -> APIClient:
    try:
        return docker.from_env(timeout=timeout_s, max_pool_size=_AT_A_TIME).api
    except (DockerException, RequestException) as error:
        raise MissingPiece(
            f"Docker does not answer ({reason(error)}); start it, or set DOCKER_HOST to where it listens; "
            "`mpibed doctor` checks what it needs"
        ) from error


@contextmanager
def _engine(doing: str, explain: Callable[[APIError], str] = reason) -> Iterator[None]:
    """Say in a user's words what the engine refused, or that it is gone."""
    try:
        yield
    except APIError as error:
        raise MpibedError(f"{doing} failed: {explain(error)}") from error
    except (DockerException, RequestException) as error:
        raise TestbedLost(
            f"{doing} failed: the Docker engine does not answer ({reason(error)}); "
            "once it does, `mpibed gc` finds what is left over"
        ) from error


def _network_refusal(error: Exception) -> str:
    text = reason(error)
    if isinstance(error, APIError) and error.status_code == 409:
        return f"{text}. If it is left over from a run, `mpibed gc` removes it"
    if "address pool" in text:
        return (
            f"{text}. The engine has no addresses left for another network: remove testbeds (`mpibed gc`) or unused "
            "networks (`docker network prune`), or widen default-address-pools in the engine's configuration"
        )
    if "active endpoints" in text:
        return f"{text}. A container that is not ours is attached, or the engine lost count and needs a restart"
    return text


def _container_refusal(error: APIError) -> str:
    hint = " If it is left over from a run, `mpibed gc` removes it" if error.status_code == 409 else ""
    return f"{reason(error)}{hint}"


def _in_parallel(work: Callable[[Item], object], items: Sequence[Item]) -> None:
    """All of them, or the first error once nothing is under way any more."""
    pool = ThreadPoolExecutor(_AT_A_TIME)
    try:
        done, _ = wait([pool.submit(work, item) for item in items], return_when=FIRST_EXCEPTION)
    finally:
        pool.shutdown(cancel_futures=True)
    for future in done:
        future.result()


def _remove(
    api: APIClient, run: str, containers: Mapping[str, str], networks: Mapping[str, str], volumes: Sequence[str]
) -> list[str]:
    """Remove these (names by id, volumes by name), whatever state they are in; a word per thing removed."""
    removed: list[str] = []
    problems: list[str] = []

    def attempt(what: str, remove: Callable[[], object], explain: Callable[[Exception], str] = reason) -> None:
        try:
            remove()
            removed.append(what)
        except NotFound:
            pass
        except (DockerException, RequestException) as error:
            problems.append(f"{what}: {explain(error)}")

    def remove_container(id_: str) -> None:
        try:
            api.remove_container(id_, v=True, force=True)
        except APIError as error:
            if error.status_code != 409:
                raise
            api.wait(id_, condition="removed")  # someone else is at it already

    _in_parallel(lambda id_: attempt(f"container {containers[id_]}", partial(remove_container, id_)), list(containers))
    for id_, name in networks.items():
        attempt(f"network {name}", partial(api.remove_network, id_), _network_refusal)
    for name in volumes:
        attempt(f"volume {name}", partial(api.remove_volume, name))
    if problems:
        raise MpibedError(
            f"the testbed of run {run} may be there still, whole or in part ({'; '.join(problems[:3])}); "
            "`mpibed gc` shows and removes what remains"
        )
    return removed
