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


ASKED = sorted({*manifest.json_schema()["$defs"]["Testbed"]["properties"]["transport"]["enum"]} - {"auto"})


@pytest.mark.parametrize("asked", ASKED)
def test_a_transport_that_a_manifest_asks_for_is_taken(asked):
    assert transport.choose(asked, one_node=True, ranks=64, cores=1) == asked


@pytest.mark.parametrize("asked", ASKED)
def test_no_transport_needs_ranks_to_read_each_others_memory(asked):
    assert transport.ENVIRONMENT[asked]["MPIR_CVAR_CH4_CMA_ENABLE"] == "0"
