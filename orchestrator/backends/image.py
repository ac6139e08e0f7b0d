"""The node image of the Docker backend, named by the content of all that goes into it, and built only when absent.

`python -m orchestrator.backends.image` (which is `make images`) makes it ready and prints its name. Nothing inside the
build needs a package index: MPICH comes from the wheel that the lock file pins, fetched once into the user's cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from docker.errors import DockerException, ImageNotFound
from platformdirs import user_cache_path

from orchestrator import project
from orchestrator.errors import MissingPiece, MpibedError

if TYPE_CHECKING:
    from docker import APIClient

    from orchestrator.backends.base import Say

REPOSITORY = "mpibed/node"
LOCAL_BASE = "mpibed/base:bookworm"
FOLDER = project.ROOT / "images" / "node"
BASE_SCRIPT = project.ROOT / "images" / "base" / "build-base.sh"
CACHE = user_cache_path("mpibed")
_SILENT_S = 1800  # longest time a build step may take without a word
_LOG_LINES = 20  # of a failed step, in the error


@dataclass(frozen=True)
class NodeImage:
    """An image that the engine has. `identity` is the engine's own digest of it."""

    tag: str
    identity: str


@dataclass(frozen=True)
class Base:
    """What the Dockerfile starts from: a name the engine understands, and the digest of what it names."""

    name: str
    identity: str


# What goes in


def context_files(folder: Path) -> dict[str, bytes]:
    """The build context without the wheel, by path in it; what editors and builds leave beside sources is no part."""
    files = {name: (folder / name).read_bytes() for name in (".dockerignore", "Dockerfile")}
    for path in sorted((folder / "src").rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") or part in ("build", "__pycache__") for part in parts):
            files["/".join(parts)] = path.read_bytes()
    return files


def mpich_requirement(lock: str) -> str:
    """The entry of MPICH in a lock file: version and hashes."""
    match = re.search(r"^mpich==(?:.*\\\n)*.*$", lock, re.MULTILINE)
    if match is None:
        raise MpibedError("the lock file has no entry `mpich==...`; the node image takes MPICH from there")
    return match.group()


def pinned_base(dockerfile: str) -> Base:
    """The base a Dockerfile asks for. Without its tag, which says nothing beside the digest."""
    match = re.search(r"^ARG BASE=([^@\s]+?)(?::[^:/@\s]+)?@(sha256:[0-9a-f]{64})$", dockerfile, re.MULTILINE)
    if match is None:
        raise MpibedError("images/node/Dockerfile has no line `ARG BASE=<name>:<tag>@sha256:<digest>`")
    return Base(f"{match[1]}@{match[2]}", match[2])


def content_tag(files: Mapping[str, bytes], requirement: str, base_identity: str) -> str:
    """The image's name: equal exactly when everything that goes in is."""
    digest = hashlib.sha256()
    for name, content in [*sorted(files.items()), ("mpich", requirement.encode()), ("base", base_identity.encode())]:
        # Lengths keep two neighbours from trading bytes unnoticed.
        digest.update(f"{len(name.encode())} {len(content)} {name}\n".encode() + content)
    return f"{REPOSITORY}:{digest.hexdigest()[:16]}"


def _context(files: Mapping[str, bytes], wheel: Path, out: IO[bytes]) -> None:
    """Write the build context. Times and owners are left out: the engine's build cache would see them as changes."""
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in {**files, "mpich.whl": wheel.read_bytes()}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


# Finding and building


def find(api: APIClient) -> NodeImage | None:
    """The image of this very content, if the engine has it."""
    files, requirement = context_files(FOLDER), _requirement()
    # An image made from the pinned base counts even where that base itself was removed since.
    for base in (_pinned(files), _present(api, LOCAL_BASE)):
        if base is not None:
            tag = content_tag(files, requirement, base.identity)
            image = _present(api, tag)
            if image is not None:
                return NodeImage(tag, image.identity)
    return None


def ensure(api: APIClient, say: Say) -> NodeImage:
    """The image of this very content, built if need be. Processes that ask at the same time build it once."""
    image = find(api)
    if image is not None:
        return image
    with _one_at_a_time(say):
        image = find(api)
        return image if image is not None else _build(api, say)


def _build(api: APIClient, say: Say) -> NodeImage:
    files = context_files(FOLDER)
    base = _base(api, _pinned(files), say)
    wheel = _wheel(api.info()["Architecture"], say)
    tag = content_tag(files, _requirement(), base.identity)
    say(f"building the node image {tag} from {base.name} (a minute or two the first time)")
    with tempfile.TemporaryFile(dir=CACHE) as context, _log(tag) as log:
        _context(files, wheel, context)
        context.seek(0)
        events = api.build(
            fileobj=context,
            custom_context=True,
            tag=tag,
            buildargs={"BASE": base.name},
            rm=True,
            forcerm=True,
            decode=True,
            timeout=_SILENT_S,
        )
        for event in events:
            log.write(event.get("stream") or event.get("error") or "")
            if "error" in event:
                raise MpibedError(f"the node image {tag} could not be built: {event['error']}")
    image = _present(api, tag)
    if image is None:
        raise MpibedError(f"Docker built {tag} but does not have it; was it removed just now? Try again")
    return NodeImage(tag, image.identity)


def _pinned(files: Mapping[str, bytes]) -> Base:
    return pinned_base(files["Dockerfile"].decode())


def _requirement() -> str:
    return mpich_requirement(project.LOCK.read_text())


def _present(api: APIClient, name: str) -> Base | None:
    try:
        return Base(name, api.inspect_image(name)["Id"])  # type: ignore[no-untyped-call]
    except ImageNotFound:
        return None


# The base


def _base(api: APIClient, pinned: Base, say: Say) -> Base:
    """The base to build on: the pinned one, or one made here from a Debian mirror."""
    if _present(api, pinned.name):
        return pinned
    local = _present(api, LOCAL_BASE)
    if local is not None:
        return local
    say(f"pulling the base image {pinned.name}")
    refusal = _pull(api, pinned)
    if refusal is None:
        return pinned
    if not _can_bootstrap():
        script = BASE_SCRIPT.relative_to(project.ROOT)
        raise MissingPiece(
            f"no base image for the nodes: {pinned.name} could not be pulled ({refusal}). Either let the Docker engine "
            f"reach a registry that has it, or make a base from a Debian mirror, as root where debootstrap is "
            f"installed: `sudo {script} | docker import - {LOCAL_BASE}`"
        )
    _bootstrap(api, say)
    local = _present(api, LOCAL_BASE)
    if local is None:
        raise MpibedError(f"Docker imported {LOCAL_BASE} but does not have it; was it removed just now? Try again")
    return local


def remedy(api: APIClient) -> str:
    """What makes the image on this machine."""
    if _present(api, _pinned(context_files(FOLDER)).name) or _present(api, LOCAL_BASE):
        return "make images"
    if _can_bootstrap():
        return "make images (the base is pulled, or made from a Debian mirror)"
    return "make images, with an image registry in reach or as root with debootstrap installed"


def _can_bootstrap() -> bool:
    return os.geteuid() == 0 and shutil.which("debootstrap") is not None


def _pull(api: APIClient, base: Base) -> str | None:
    """Why the base could not be pulled; None when it could."""
    name, digest = base.name.split("@")
    problem = "no reason given"
    try:
        for event in api.pull(name, tag=digest, stream=True, decode=True):
            problem = event.get("error", problem)
    except DockerException as error:
        problem = getattr(error, "explanation", None) or str(error)
    return None if _present(api, base.name) else problem


def _bootstrap(api: APIClient, say: Say) -> None:
    say(f"making the base image {LOCAL_BASE} with debootstrap (about a minute)")
    with tempfile.TemporaryFile(dir=CACHE) as archive, _log(LOCAL_BASE) as log:
        # A session of its own, ended as a whole: a shell heeds a signal only after the command it waits for.
        with subprocess.Popen(
            [BASE_SCRIPT], stdin=subprocess.DEVNULL, stdout=archive, stderr=log, start_new_session=True
        ) as script:
            try:
                status = script.wait()
            except BaseException:
                os.killpg(script.pid, signal.SIGTERM)
                script.wait()
                raise
        if status != 0:
            raise MpibedError(
                f"debootstrap could not make the base image {LOCAL_BASE} (exit status {status}); "
                "MPIBED_DEBIAN_MIRROR names another mirror"
            )
        archive.seek(0)
        repository, tag = LOCAL_BASE.split(":")
        api.import_image(archive, repository=repository, tag=tag, changes=['CMD ["bash"]'])


# The wheel


def _wheel(architecture: str, say: Say) -> Path:
    """MPICH for that architecture, as pinned; from the cache, where its hash is checked each time, or fetched."""
    requirement = _requirement()
    folder = CACHE / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    wheel = _pinned_wheel(folder, architecture, requirement)
    if wheel is not None:
        return wheel
    say(f"fetching {requirement.split()[0]} for {architecture}")
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    # The nodes' platform, which need not be the host's.
    pip += [f"--platform={kind}_{architecture}" for kind in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")]
    done = subprocess.run(
        [*pip, f"--dest={folder}", "--requirement=/dev/stdin"],
        input=requirement,
        capture_output=True,
        text=True,
        check=False,
    )
    wheel = _pinned_wheel(folder, architecture, requirement)
    if wheel is None:
        raise MissingPiece(
            f"the wheel of {requirement.split()[0]} for {architecture} could not be fetched:\n"
            f"{_tail(done.stdout + done.stderr)}\nEither let pip reach a package index, or put the wheel into {folder}"
        )
    return wheel


def _pinned_wheel(folder: Path, architecture: str, requirement: str) -> Path | None:
    for path in sorted(folder.glob(f"mpich-*_{architecture}.whl")):
        if f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}" in requirement:
            return path
    return None


# Files beside


@contextmanager
def _one_at_a_time(say: Say) -> Iterator[None]:
    """Held by one process at a time; the system lets go of it however the process ends."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "image.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another mpibed that is making an image")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _log(what: str) -> Iterator[IO[str]]:
    """Where a long step writes to. Kept when the step fails, and its end is added to the error."""
    path = CACHE / "logs" / f"{what.replace('/', '-').replace(':', '-')}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("w", encoding="utf-8") as log:
            yield log
    except MpibedError as error:
        end = _tail(path.read_text(encoding="utf-8", errors="replace"))
        raise type(error)(f"{error}\n{end}\nThe whole output is in {path}") from error
    path.unlink()


def _tail(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-_LOG_LINES:])


def main() -> int:
    """Make the image ready and print its name."""
    from orchestrator.backends.docker import DockerBackend

    try:
        print(DockerBackend().build(lambda sentence: print(sentence, file=sys.stderr)).description)
    except MpibedError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
