"""Experiments: a manifest against the benchmarks there are, and every point of its sweeps."""

from __future__ import annotations

import re

import pytest

from orchestrator import experiment, manifest
from orchestrator.errors import ManifestError
from orchestrator.experiment import PLACEMENT
from orchestrator.families import BENCHMARKS
from tests.conftest import QUICKSTART
from tests.unit.test_manifest import HEAD, USE, refusal


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("    sweep: {matrix: {pairs: []}}", "5:22: the sweep of pairs is empty; give it at least one value"),
        ("    sweep: {matrix: {pairs: {log2: {from: 8, to: 4}}}}", "5:22: the sweep of pairs is empty"),
        (
            "    sweep: {matrix: {pairs: {log2: {from: 0, to: 4}}}}",
            "5:22: pairs: log2 starts at 0; it must be 1 or more",
        ),
        ("    sweep: {matrix: {pairs: {range: {from: 1, to: 9, step: 0}}}}", "5:22: pairs: step 0 must be positive"),
        ("    sweep: {matrix: {pairs: {range: {from: 1, to: .inf}}}}", "5:22: pairs: from 1 to inf by 1 is no range"),
        ("    sweep: {matrix: {exchanges: [1, 1]}}", "5:22: the sweep of exchanges has a value twice"),
        ("    sweep: {matrix: {message_bytes: [1, 1B]}}", "5:22: the sweep of message_bytes has a value twice"),
        (
            "    sweep: {zip: {message_bytes: [1, 2], exchanges: [1]}}",
            "5:13: zip axes must have as many values each; message_bytes has 2, exchanges has 1",
        ),
        (
            "    sweep: {zip: {message_bytes: [1, 1], exchanges: [2, 2]}}",
            "5:13: the zip axes give the same values twice",
        ),
        ("    parameters: {exchange: 5}", "5:18: unknown parameter of p2p.latency 'exchange'; allowed: message_bytes,"),
        ("    sweep: {matrix: {exchange: [5]}}", "5:22: unknown parameter of p2p.latency 'exchange'; allowed: message"),
        ("    parameters: {message_bytes: -1}", "5:18: message_bytes: -1 is out of range; allowed: "),
        ("    parameters: {message_bytes: 2GiB}", "5:18: message_bytes: 2147483648 is out of range; allowed: "),
        (
            "    parameters: {message_bytes: 4 mib}",
            "5:18: message_bytes: unknown unit 'mib' in '4 mib'; allowed: B, kB,",
        ),
        ("    parameters: {message_bytes: 1.5}", "5:18: message_bytes: 1.5 is not a whole number; allowed: "),
        ("    parameters: {exchanges: '5'}", "5:18: exchanges: '5' is not a whole number; allowed: "),
        ("    parameters: {exchanges: true}", "5:18: exchanges: True is not a whole number; allowed: "),
        ("    parameters: {exchanges: .nan}", "5:18: exchanges: nan is not a whole number; allowed: "),
        ("    parameters: {nodes: 0}", "5:18: nodes: 0 is out of range; allowed: "),
        ("  - benchmark: p2p.latency", "5:5: a second benchmark is called 'latency'; give one a `label`"),
        ("    parameters: {exchanges: 5}\n    sweep: {matrix: {exchanges: [5]}}", "6:22: exchanges is given twice"),
        (
            "    sweep: {matrix: {exchanges: [5]}, zip: {exchanges: [5]}}",
            "5:45: exchanges is given twice; give it once",
        ),
        (
            "    sweep: {matrix: {exchanges: [5]}, exclude: [{where: exchanges == 5}]}",
            "5:39: `exclude` drops every point of the sweep; loosen it",
        ),
        (
            "    sweep: {exclude: [{where: exchange == 5}]}",
            "5:24: unknown name in 'exchange == 5': 'exchange'; allowed:",
        ),
        ("    sweep: {exclude: [{where: open('x')}]}", "5:24: \"open('x')\" uses Call; allowed: comparisons"),
        ("    sweep: {exclude: [{where: pairs ==}]}", "5:24: 'pairs ==' is not an expression; write for example"),
        ("    sweep: {exclude: [{where: pairs < 'a'}]}", "5:5: \"pairs < 'a'\" cannot be evaluated"),
        ("    parameters: {pairs: 2}", "4:5: p2p.latency: pairs=2 needs exactly 4 ranks, the testbed gives 2"),
        ("testbed: {nodes: 3}", "4:5: p2p.latency: pairs=1 needs exactly 2 ranks, the testbed gives 3"),
        (
            "    sweep: {matrix: {message_bytes: {range: {from: 0, to: 50000}}, exchanges: [1, 2, 3]}}",
            "5:5: the sweep spans 150003 points, more than the 100000 allowed; split the manifest",
        ),
        ("analysis: [hockny]", "5:12: unknown model 'hockny'; allowed: hockney; did you mean 'hockney'?"),
        ("figures: [latency, x]", "5:20: unknown figure 'x'; allowed: latency"),
    ],
)
def test_a_mistake_of_meaning_is_told_with_its_place(rest, message, write):
    lines = refusal(write(f"{USE}{rest}")).splitlines()
    assert [f"m.yaml:{message}"] == [line[: len(f"m.yaml:{message}")] for line in lines]


@pytest.mark.parametrize(("found", "hint"), [("p2p.latencz", "; did you mean 'p2p.latency'?"), ("x", "")])
def test_an_unknown_benchmark_is_answered_with_those_there_are(found, hint, write):
    message = refusal(write(f"{HEAD}benchmarks: [{{benchmark: {found}}}]"))
    assert f"m.yaml:3:15: unknown benchmark {found!r}; allowed: {', '.join(BENCHMARKS)}{hint}" == message


def test_bandwidth_of_empty_messages_is_refused(write):
    text = f"{HEAD}benchmarks:\n  - benchmark: p2p.bandwidth\n    parameters: {{message_bytes: 0}}\n"
    assert refusal(write(text)).startswith("m.yaml:")


def test_mistakes_of_all_benchmarks_are_told_at_once(write):
    text = f"{USE}    parameters: {{exchange: 5, message_bytes: -1}}\n  - benchmark: nope\nfigures: [x]"
    places = [line.split(" ")[0] for line in refusal(write(text)).splitlines()]
    assert places == ["m.yaml:5:18:", "m.yaml:5:31:", "m.yaml:6:5:", "m.yaml:7:11:"]


def test_a_mistake_of_a_scale_is_told_at_the_place_of_the_scale(write):
    path = write(f"{USE}scales: {{paper: {{benchmarks: {{latency: {{parameters: {{exchange: 1}}}}}}}}}}")
    assert refusal(path, "paper").startswith("m.yaml:5:54: unknown parameter of p2p.latency 'exchange'")


def test_a_point_has_every_parameter_and_the_placement(resolved):
    (use,) = resolved(f"{USE}    sweep: {{matrix: {{message_bytes: [1, 1KiB]}}}}").uses
    expected = {p.name for p in (*BENCHMARKS["p2p.latency"].parameters, *PLACEMENT)}
    assert [expected, expected] == [set(point) for point in use.points]
    assert [point["message_bytes"] for point in use.points] == [1, 1024]
    assert [(point["nodes"], point["ranks_per_node"]) for point in use.points] == [(2, 1)] * 2


def test_zip_axes_may_repeat_a_value_as_long_as_rows_differ(resolved):
    (use,) = resolved(f"{USE}    sweep: {{zip: {{message_bytes: [1, 1], exchanges: [1, 2]}}}}").uses
    assert [(point["message_bytes"], point["exchanges"]) for point in use.points] == [(1, 1), (1, 2)]


def test_pairs_go_with_the_ranks_they_need(resolved):
    rest = "    sweep: {zip: {pairs: [1, 2], ranks_per_node: [1, 2]}}"
    (use,) = resolved(f"{USE}{rest}").uses
    assert [(point["pairs"], point["ranks_per_node"]) for point in use.points] == [(1, 1), (2, 2)]


def test_a_label_tells_two_uses_of_a_benchmark_apart(resolved):
    uses = resolved(f"{USE}  - benchmark: p2p.latency\n    label: again").uses
    assert [use.label for use in uses] == ["latency", "again"]


@pytest.mark.parametrize("scale", manifest.SCALES)
def test_the_quickstart_resolves_at_every_scale(scale):
    uses = experiment.resolve(manifest.load(QUICKSTART, scale)).uses
    assert [use.label for use in uses] == ["latency", "bandwidth", "bidirectional", "message_rate"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "cannot be read"),
        ("message_bytes,value\n8,1\n", "no column 'metric'"),
        ("message_byte,metric,value\n8,one_way_latency,1\n", "did you mean 'message_bytes'?"),
    ],
)
def test_a_reference_that_cannot_be_compared_is_refused_with_its_place(resolved, tmp_path, content, text):
    if content is not None:
        (tmp_path / "r.csv").write_text(content, encoding="utf-8")
    with pytest.raises(ManifestError, match=re.escape(text)) as error:
        resolved(f"reference: r.csv\n{USE}")
    assert "m.yaml:1:1: " in str(error.value)


def test_a_reference_in_columns_of_the_tables_is_taken(resolved, tmp_path):
    (tmp_path / "r.csv").write_text("message_bytes,nodes,metric,value,unit,source\n", encoding="utf-8")
    assert resolved(f"reference: r.csv\n{USE}").reference == tmp_path / "r.csv"
