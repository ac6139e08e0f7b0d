"""Transports: which one `auto` means, and what every one must tell MPICH."""

from __future__ import annotations

import pytest

from orchestrator import manifest, transport


@pytest.mark.parametrize(
    ("chosen", "one_node", "ranks", "cores"),
    [
        ("native", True, 2, 2),
        ("native", False, 2, 2),
        ("ofi-shm", True, 3, 2),
        ("tcp", False, 3, 2),
        ("native", True, 1, 1),
        ("ofi-shm", True, 2, 1),
    ],
)
def test_auto_takes_a_transport_that_yields_when_ranks_outnumber_cores(chosen, one_node, ranks, cores):
    assert chosen == transport.choose("auto", one_node=one_node, ranks=ranks, cores=cores)


@pytest.mark.parametrize("asked", transport.ENVIRONMENT)
def test_a_transport_that_was_asked_for_is_taken(asked):
    assert asked == transport.choose(asked, one_node=True, ranks=64, cores=1)


def test_a_manifest_may_ask_for_every_transport_there_is():
    schema = manifest.json_schema()["$defs"]["Testbed"]["properties"]["transport"]
    assert {"auto", *transport.ENVIRONMENT} == set(schema["enum"])


@pytest.mark.parametrize("name", transport.ENVIRONMENT)
def test_no_transport_needs_ranks_to_read_each_others_memory(name):
    assert "0" == transport.ENVIRONMENT[name]["MPIR_CVAR_CH4_CMA_ENABLE"]
