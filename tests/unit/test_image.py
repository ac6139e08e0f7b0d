"""What the node image is named by, and what its recipe promises; no engine is asked."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.errors import APIError, ImageNotFound

from orchestrator import project
from orchestrator.backends import image
from orchestrator.errors import MissingPiece, MpibedError

DOCKERFILE = (image.FOLDER / "Dockerfile").read_text()
FILES = {"Dockerfile": b"FROM base", "src/a.c": b"int a;", "src/b.c": b"int b;"}
MPICH = "mpich==5.0.2 --hash=sha256:" + "0" * 64
BASE = "sha256:" + "1" * 64


def test_the_same_content_has_the_same_name_in_any_order() -> None:
    expected = image.content_tag(FILES, MPICH, BASE)
    assert expected == image.content_tag(dict(reversed(FILES.items())), MPICH, BASE)
    assert re.fullmatch(r"mpibed/node:[0-9a-f]{12,}", expected)


@pytest.mark.parametrize(
    ("files", "mpich", "base"),
    [
        pytest.param(FILES | {"src/a.c": b"int A;"}, MPICH, BASE, id="one byte of a source"),
        pytest.param(FILES | {"Dockerfile": b"FROM bas"}, MPICH, BASE, id="the recipe"),
        pytest.param(FILES | {"src/c.c": b""}, MPICH, BASE, id="an empty file more"),
        pytest.param({k: v for k, v in FILES.items() if k != "src/b.c"}, MPICH, BASE, id="a file less"),
        pytest.param(FILES | {"src/a.c": b"int b;", "src/b.c": b"int a;"}, MPICH, BASE, id="contents exchanged"),
        pytest.param(FILES, MPICH.replace("5.0.2", "5.0.3"), BASE, id="the version of MPICH"),
        pytest.param(FILES, MPICH[:-1] + "1", BASE, id="the hash of MPICH"),
        pytest.param(FILES, MPICH, BASE[:-1] + "2", id="the base"),
    ],
)
def test_other_content_has_another_name(files: dict[str, bytes], mpich: str, base: str) -> None:
    assert image.content_tag(FILES, MPICH, BASE) != image.content_tag(files, mpich, base)


def test_bytes_that_move_between_files_change_the_name() -> None:
    assert image.content_tag({"a": b"xy", "b": b"z"}, MPICH, BASE) != image.content_tag(
        {"a": b"x", "b": b"yz"}, MPICH, BASE
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("Dockerfile", ".dockerignore", "src/CMakeLists.txt", "src/p2p/latency.c"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def test_the_context_is_the_recipe_and_the_sources(folder: Path) -> None:
    assert {".dockerignore", "Dockerfile", "src/CMakeLists.txt", "src/p2p/latency.c"} == set(
        image.context_files(folder)
    )


@pytest.mark.parametrize("litter", ["src/.latency.c.swp", "src/build/bin/latency", "src/p2p/__pycache__/x", "notes"])
def test_what_editors_and_builds_leave_is_no_part_of_the_context(folder: Path, litter: str) -> None:
    before = image.context_files(folder)
    (folder / litter).parent.mkdir(parents=True, exist_ok=True)
    (folder / litter).write_text("litter")
    assert before == image.context_files(folder)


def test_the_build_context_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    wheel = tmp_path / "mpich-5.0.2-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    first, second = io.BytesIO(), io.BytesIO()
    image._context(FILES, wheel, first)
    wheel.touch()
    image._context(FILES, wheel, second)
    assert first.getvalue() == second.getvalue()
    with tarfile.open(fileobj=io.BytesIO(first.getvalue())) as tar:
        assert {*FILES, "mpich.whl"} == set(tar.getnames())


def test_only_the_entry_of_mpich_is_taken_from_the_lock_file() -> None:
    lock = (
        "mpi4py==4 \\\n    --hash=sha256:aa\nmpich==5.0.2 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\nmypy==2\n"
    )
    assert image.mpich_requirement(lock) == "mpich==5.0.2 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc"


def test_the_projects_own_lock_file_pins_mpich_by_hash() -> None:
    requirement = image.mpich_requirement(project.LOCK.read_text())
    assert re.match(r"mpich==[0-9.]+ .*--hash=sha256:[0-9a-f]{64}", requirement, re.DOTALL)


def test_a_lock_file_without_mpich_is_refused() -> None:
    with pytest.raises(MpibedError, match="no entry `mpich=="):
        image.mpich_requirement("mpi4py==4\n")


def test_the_base_is_pinned_by_digest() -> None:
    base = image.pinned_base(DOCKERFILE)
    assert re.fullmatch(r"debian@sha256:[0-9a-f]{64}", base.name)
    assert base.name.endswith(base.identity)


def test_a_base_may_come_from_another_registry() -> None:
    digest = "sha256:" + "a" * 64
    expected = image.Base(f"lab.example:5000/debian@{digest}", digest)
    assert expected == image.pinned_base(f"ARG BASE=lab.example:5000/debian:bookworm-slim@{digest}\n")


def test_a_base_without_a_digest_is_refused() -> None:
    with pytest.raises(MpibedError, match="ARG BASE="):
        image.pinned_base("ARG BASE=debian:bookworm-slim\nFROM ${BASE}\n")


def test_no_compiler_is_installed_where_the_benchmarks_run() -> None:
    *_, last = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    assert "apt-get" not in last
    assert not re.search(r"\b(gcc|cmake|mpicc|libc6-dev)\b", last)


def test_nodes_do_not_run_as_root() -> None:
    *_, last = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    assert re.findall(r"^USER (.*)$", last, re.MULTILINE) == ["mpibed"]


def test_no_mirror_or_index_is_written_into_the_recipes() -> None:
    for recipe in (DOCKERFILE, image.BASE_SCRIPT.read_text()):
        assert not re.search(r"https?://", recipe)


# The wheel


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(image, "CACHE", tmp_path)
    return tmp_path


def test_a_wheel_whose_hash_is_not_pinned_is_not_used(tmp_path: Path) -> None:
    wheel = tmp_path / "mpich-5.0.2-py3-none-manylinux_2_28_x86_64.whl"
    wheel.write_bytes(b"as published")
    requirement = "mpich==5.0.2 --hash=sha256:" + hashlib.sha256(b"as published").hexdigest()
    assert wheel == image._pinned_wheel(tmp_path, "x86_64", requirement)
    assert image._pinned_wheel(tmp_path, "aarch64", requirement) is None
    wheel.write_bytes(b"tampered with")
    assert image._pinned_wheel(tmp_path, "x86_64", requirement) is None


def test_a_wheel_that_cannot_be_fetched_names_both_ways_out(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(MissingPiece, match="package index, or put the wheel into") as caught:
        image._wheel("x86_64", lambda _: None)
    assert str(cache / "wheels") in str(caught.value)


# The base


class NoRegistry:
    """An engine that has no image and cannot pull any."""

    def inspect_image(self, name: str) -> None:
        raise ImageNotFound(name)

    def pull(self, name: str, **_: object) -> Iterator[dict[str, str]]:
        raise APIError("no such host")


def test_without_a_base_the_error_names_both_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "_can_bootstrap", lambda: False)
    engine = NoRegistry()
    with pytest.raises(MissingPiece) as caught:
        image._base(engine, image.pinned_base(DOCKERFILE), lambda _: None)  # type: ignore[arg-type]
    assert "reach a registry" in str(caught.value)
    assert "images/base/build-base.sh | docker import - mpibed/base:bookworm" in str(caught.value)


def test_a_failed_step_keeps_its_log_and_shows_the_end(cache: Path) -> None:
    with pytest.raises(MpibedError) as caught, image._log("mpibed/node:0") as log:
        log.write("first line\n" + "x\n" * 100 + "last line\n")
        raise MpibedError("it failed")
    (kept,) = (cache / "logs").iterdir()
    assert kept.read_text().startswith("first line\n")
    assert str(caught.value).startswith("it failed\n")
    assert "last line" in str(caught.value)
    assert str(kept) in str(caught.value)
    assert "first line" not in str(caught.value)


def test_a_step_that_succeeds_leaves_no_log(cache: Path) -> None:
    with image._log("mpibed/node:0") as log:
        log.write("fine\n")
    assert list((cache / "logs").iterdir()) == []
