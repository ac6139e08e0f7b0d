"""What every transport must do, tried with an ordinary MPI program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orchestrator import project, transport
from orchestrator.backends.base import LABEL_OWNER, LABEL_RUN, TestbedSpec
from orchestrator.backends.local import LocalBackend
from orchestrator.launch import Job, launch
from tests.integration.conftest import Up

ROUNDS = 20
SERVE_WHOEVER_IS_FIRST = r"""
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int round = 0; round < ROUNDS; round++) {
        int answer = -1;
        MPI_Barrier(MPI_COMM_WORLD);
        for (int served = 1; rank == 0 && served < ranks; served++) {
            MPI_Status status;
            MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &status);
            MPI_Send(&round, 1, MPI_INT, status.MPI_SOURCE, 1, MPI_COMM_WORLD);
        }
        if (rank != 0) {
            MPI_Sendrecv(NULL, 0, MPI_BYTE, 0, 0, &answer, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (answer != round)
                MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    if (rank == 0)
        puts("served");
    return MPI_Finalize();
}
"""


@pytest.fixture(scope="module")
def program(local: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wildcard")
    (folder / "wildcard.c").write_text(SERVE_WHOEVER_IS_FIRST, encoding="utf-8")
    command = [project.MPI_PREFIX / "bin" / "mpicc", f"-DROUNDS={ROUNDS}", "-o", "wildcard", "wildcard.c"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "wildcard"


def _job(program: str, kind: str) -> Job:
    return Job((program,), 4, 1, transport.ENVIRONMENT[kind], 60.0, "transports/launch")


@pytest.mark.local
@pytest.mark.parametrize("kind", sorted(set(transport.ENVIRONMENT) - {transport.NONE}))
def test_a_wildcard_receive_takes_whoever_is_first(program, kind, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    testbed = LocalBackend().up(TestbedSpec(4, 1), {LABEL_RUN: "transports", LABEL_OWNER: "tests"})
    try:
        outcome = launch(testbed, _job(testbed.put(program), kind))
    finally:
        testbed.close()
    assert (outcome.reason, outcome.stdout) == ("", ["served"])


@pytest.mark.docker
@pytest.mark.parametrize("kind", ["native", "tcp"])
def test_a_wildcard_receive_takes_whoever_is_first_in_containers(program, kind, up: Up, run_id):
    testbed = up(run_id, 4)
    outcome = launch(testbed, _job(testbed.put(program), kind))
    assert (outcome.reason, outcome.stdout) == ("", ["served"])
