"""Testbeds that stay, on the local backend: up, exec of an ordinary MPI program, down, gc."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator import project
from tests.conftest import MPIBED, QUICKSTART

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("local")]

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0) {
        printf("%d ranks, argument %s, COLOUR %s\n", ranks, argc > 1 ? argv[1] : "none", getenv("COLOUR"));
        fprintf(stderr, "a word on stderr\n");
    }
    MPI_Finalize();
    return argc > 2 ? atoi(argv[2]) : 0;
}
"""


@pytest.fixture(scope="module")
def program(local, tmp_path_factory) -> Path:
    """An ordinary MPI program that knows nothing of mpibed."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "hello.c").write_text(PROGRAM, encoding="utf-8")
    subprocess.run(
        [project.MPI_PREFIX / "bin" / "mpicc", "-o", "hello", "hello.c"], cwd=folder, check=True, capture_output=True
    )
    return folder / "hello"


@pytest.fixture
def mpibed(tmp_path, monkeypatch) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """The command, with a cache of its own and without Docker; testbeds that are left are taken down."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "DOCKER_HOST": "unix:///nonexistent"}

    def call(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [MPIBED, *map(str, words)], cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=100, check=False,
        )  # fmt: skip

    yield call
    for folder in beds(tmp_path):
        call("down", folder)


def beds(tmp_path: Path) -> list[str]:
    folder = tmp_path / "cache" / "mpibed" / "local"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


@pytest.fixture
def testbed(mpibed, tmp_path) -> str:
    """The id of a testbed of the quickstart: two ranks."""
    done = mpibed("up", QUICKSTART, "--backend", "local")
    assert done.returncode == 0, done.stderr
    assert beds(tmp_path) == done.stdout.split()
    return done.stdout.strip()


def test_an_ordinary_mpi_program_runs_with_its_output_and_exit_code(mpibed, testbed, program):
    done = mpibed("exec", "--", program, "blue")
    assert (done.returncode, done.stdout) == (0, "2 ranks, argument blue, COLOUR (null)\n")
    assert done.stderr == "a word on stderr\n"
    assert mpibed("exec", "--", program, "blue", 7).returncode == 7


def test_a_program_is_found_from_the_folder_one_is_in(mpibed, testbed, program):
    assert "2 ranks" in mpibed("exec", "--", "./hello", cwd=program.parent).stdout


@pytest.mark.parametrize(
    ("ranks", "words"),
    [(1, ["-n", "1"]), (3, ["mpiexec", "-n", "3"]), (4, ["mpirun", "-np", "4", "-ppn", "2"])],
)
def test_commands_written_for_mpiexec_are_understood(ranks, words, mpibed, testbed, program):
    done = mpibed("exec", "--", *words, "-env", "COLOUR", "red", program)
    assert f"{ranks} ranks, argument none, COLOUR red\n" == done.stdout


def test_options_behind_the_program_are_the_programs(mpibed, testbed, program):
    assert "argument --help," in mpibed("exec", "--", program, "--help").stdout


@pytest.mark.parametrize("transport", ["native", "tcp", "ofi-shm"])
def test_every_transport_carries_it(transport, mpibed, testbed, program):
    done = mpibed("exec", "--transport", transport, "--", program)
    assert (done.returncode, "2 ranks" in done.stdout) == (0, True), done.stderr


def test_an_option_that_is_not_known_is_named(mpibed, testbed, program):
    done = mpibed("exec", "--", "--bind-to", "core", program)
    assert (done.returncode, "'--bind-to' is not understood before the program" in done.stderr) == (2, True)


def test_a_program_that_is_not_there_is_no_success(mpibed, testbed):
    done = mpibed("exec", "--", "./nowhere")
    assert done.returncode != 0
    assert "nowhere" in done.stderr


def test_down_removes_it_and_a_second_down_finds_none(mpibed, testbed, tmp_path):
    done = mpibed("down")
    assert (done.returncode, testbed in done.stdout) == (0, True)
    assert beds(tmp_path) == []
    assert mpibed("down").returncode == 2


def test_a_testbed_outlives_the_command_that_made_it_and_is_no_garbage(mpibed, testbed, tmp_path):
    assert mpibed("gc").stdout == "nothing to remove\n"
    assert [testbed] == beds(tmp_path)


def test_without_a_testbed_the_way_to_one_is_told(mpibed, program):
    for words in (["exec", "--", program], ["down"], ["exec", "--run", "nobody", "--", program], ["down", "nobody"]):
        done = mpibed(*words)
        assert done.returncode == 2
        assert "there is no testbed" in done.stderr
        assert "`mpibed up MANIFEST` makes one" in done.stderr


def test_of_several_testbeds_one_must_be_named(mpibed, testbed, program, tmp_path):
    other = mpibed("up", QUICKSTART, "--backend", "local").stdout.strip()
    done = mpibed("exec", "--", program)
    assert (done.returncode, "there are several testbeds: " in done.stderr) == (2, True)
    assert testbed in done.stderr
    assert other in done.stderr
    assert "2 ranks" in mpibed("exec", "--run", other, "--", program).stdout
    assert mpibed("down", other).returncode == 0
    assert [testbed] == beds(tmp_path)


@pytest.mark.docker
def test_the_same_program_runs_in_containers(docker_backend, program, tmp_path):
    manifest = tmp_path / "m.yaml"
    manifest.write_text(
        "schema: 1\nname: m\ntestbed: {nodes: 3}\nbenchmarks:\n  - benchmark: p2p.latency\n"
        "    sweep: {matrix: {nodes: [2]}}\n",
        encoding="utf-8",
    )

    def mpibed(*words: object) -> subprocess.CompletedProcess[str]:
        command = [MPIBED, *map(str, words)]
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False
        )

    run = mpibed("up", manifest, "--backend", "docker").stdout.strip()
    try:
        done = mpibed("exec", "--run", run, "--", "-env", "COLOUR", "red", program, "blue", "5")
        assert done.stdout == "3 ranks, argument blue, COLOUR red\n"
        assert "a word on stderr" in done.stderr
        assert done.returncode == 5
    finally:
        mpibed("down", run)
    assert [found for found in docker_backend.find() if found.run == run] == []
