"""Manifests: their form, what a scale changes, and a place for every mistake."""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml

from orchestrator import experiment, manifest
from orchestrator.errors import ManifestError
from tests.conftest import QUICKSTART

HEAD = "schema: 1\nname: m\n"
USE = f"{HEAD}benchmarks:\n  - benchmark: p2p.latency\n"  # four lines; what follows begins on line 5


def refusal(path, scale="laptop"):
    """The message of a manifest that must be refused, without the file's folder."""
    with pytest.raises(ManifestError) as error:
        experiment.resolve(manifest.load(path, scale))
    return str(error.value).replace(f"{path.parent}/", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "1:1: 5 is not a mapping; write keys with values"),
        ("- 1", "1:1: [1] is not a mapping"),
        (HEAD, "1:1: benchmarks: the key 'benchmarks' is missing; it is required"),
        ("name: m\nbenchmarks: [{benchmark: p2p.latency}]", "1:1: schema: the key 'schema' is missing"),
        (f"lanches: 3\n{USE}", "1:1: lanches: unknown key 'lanches'; allowed: schema, name, title,"),
        (USE.replace("schema: 1", "schema: 2"), "1:1: schema: unknown value '2'; allowed: 1"),
        (USE.replace("name: m", "name: M m"), "2:1: name: 'M m' is not allowed; string should match pattern"),
        (f"{HEAD}benchmarks: []", "3:1: benchmarks: [] is not allowed; list should have at least 1 item"),
        (f"{HEAD}benchmarks: 5", "3:1: benchmarks: 5 is not allowed; input should be a valid list"),
        (f"{HEAD}benchmarks: [5]", "3:14: benchmarks.0: 5 is not a mapping"),
        (f"{USE}    lable: x", "5:5: benchmarks.0.lable: unknown key 'lable'; allowed: benchmark, label,"),
        (f"{USE}    label: Big", "5:5: benchmarks.0.label: 'Big' is not allowed; string should match pattern"),
        (f"{USE}    parameters: {{window: [1]}}", "5:18: benchmarks.0.parameters.window: [1] is not a plain value"),
        (f"{USE}    parameters: {{window: }}", "5:18: benchmarks.0.parameters.window: None is not a plain value"),
        (f"{USE}launches: '3'", "5:1: launches: '3' is not allowed; input should be a valid integer"),
        (f"{USE}launches: 2.0", "5:1: launches: 2.0 is not allowed; input should be a valid integer"),
        (f"{USE}launches: yes", "5:1: launches: 'yes' is not allowed; input should be a valid integer"),
        (f"{USE}launches: 0", "5:1: launches: 0 is not allowed; input should be greater than or equal to 1"),
        (f"{USE}launches: 1001", "5:1: launches: 1001 is not allowed; input should be less than or equal to 1000"),
        (f"{USE}warmup: 0", "5:1: warmup: 0 is not allowed"),
        (f"{USE}seed: -1", "5:1: seed: -1 is not allowed"),
        (f"{USE}timeout: 60", "5:1: timeout: 60 has no unit; write a duration as 500ms, 60s or 5min"),
        (f"{USE}timeout: 0s", "5:1: timeout: '0s' is not allowed; input should be greater than 0"),
        (f"{USE}timeout: 25h", "5:1: timeout: '25h' is not allowed; input should be less than or equal to 86400"),
        (f"{USE}testbed: {{nodes: 0}}", "5:11: testbed.nodes: 0 is not allowed; input should be greater than"),
        (f"{USE}testbed: {{nodes: 100000}}", "5:11: testbed.nodes: 100000 is not allowed; input should be less than"),
        (f"{USE}testbed: {{ranks_per_node: 0}}", "5:11: testbed.ranks_per_node: 0 is not allowed"),
        (f"{USE}testbed: {{node: 1}}", "5:11: testbed.node: unknown key 'node'; allowed: nodes, ranks_per_node,"),
        (f"{USE}testbed: {{transport: tpc}}", "5:11: testbed.transport: unknown value 'tpc'; allowed: auto, native,"),
        (f"{USE}testbed: {{shared_memory: -1}}", "5:11: testbed.shared_memory: -1 is negative; a size is 0 or more"),
        (f"{USE}testbed: {{resources: {{memory: 1 gb}}}}", "5:23: testbed.resources.memory: unknown unit 'gb'"),
        (f"{USE}testbed: {{resources: {{cpus: .nan}}}}", "5:23: testbed.resources.cpus: nan is not allowed"),
        (f"{USE}fabric: sci", "5:1: fabric: unknown value 'sci'; allowed: none"),
        (f"{USE}mode: mc", "5:1: mode: unknown value 'mc'; allowed: pc"),
        (f"{USE}claims: [1]", "5:1: claims: [1] is not allowed; list should have at most 0 items"),
        (f"{USE}    sweep: {{matrix: {{pairs: 5}}}}", "5:22: benchmarks.0.sweep.matrix.pairs: 5 is not a mapping"),
        (
            f"{USE}    sweep: {{matrix: {{pairs: {{}}}}}}",
            "5:22: benchmarks.0.sweep.matrix.pairs: an axis needs exactly",
        ),
        (
            f"{USE}    sweep: {{matrix: {{pairs: {{values: [1], log2: {{from: 1, to: 2}}}}}}}}",
            "5:22: benchmarks.0.sweep.matrix.pairs: an axis needs exactly one of values, range, log2; found values and",
        ),
        (
            f"{USE}    sweep: {{matrix: {{pairs: {{range: {{from: 0, to: x}}}}}}}}",
            "5:47: benchmarks.0.sweep.matrix.pairs.range.to: 'x' is not a number",
        ),
        (f"{USE}    sweep: {{exclude: [pairs]}}", "5:23: benchmarks.0.sweep.exclude.0: 'pairs' is not a mapping"),
        (f"{USE}scales: [1]", "5:1: scales: [1] is not a mapping"),
        (f"{USE}scales: {{smoke: 5}}", "5:10: scales.smoke: 5 is not a mapping"),
        (f"{USE}scales: {{smok: {{}}}}", "5:10: scales.smok: unknown value 'smok'; allowed: smoke, laptop, paper;"),
        (f"{USE}scales: {{smoke: {{launches: 0}}}}", "5:18: scales.smoke.launches: 0 is not allowed"),
        (f"{USE}scales: {{smoke: {{lanches: 1}}}}", "5:18: scales.smoke.lanches: unknown key 'lanches'; allowed: test"),
        (
            f"{USE}scales: {{paper: {{testbed: {{node: 1}}}}}}",
            "5:28: testbed.node: unknown key 'node'; allowed: nodes,",
        ),
        (
            f"{USE}scales: {{smoke: {{benchmarks: {{latencz: {{}}}}}}}}",
            "5:31: unknown benchmark label 'latencz'; allowed: latency; did you mean 'latency'?",
        ),
    ],
)
def test_a_mistake_of_form_is_told_with_its_place(text, message, write):
    lines = refusal(write(text)).splitlines()
    assert [f"m.yaml:{message}"] == [line[: len(f"m.yaml:{message}")] for line in lines]


@pytest.mark.parametrize(
    ("found", "meant", "text"),
    [
        ("lanches", "launches", f"{USE}lanches: 3"),
        ("lable", "label", f"{USE}    lable: x"),
        ("tpc", "tcp", f"{USE}testbed: {{transport: tpc}}"),
        ("smok", "smoke", f"{USE}scales: {{smok: {{}}}}"),
    ],
)
def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(found, meant, text, write):
    assert refusal(write(text)).endswith(f"did you mean {meant!r}?")
    assert repr(found) in refusal(write(text))


def test_all_mistakes_of_a_file_are_told_at_once_in_the_order_of_the_file(write):
    text = (
        f"{USE}    lable: x\nlaunches: 0\ntestbed: {{nodes: 0, transport: tpc}}\n"
        "scales: {smoke: {warmup: 0}, paper: {x: 1}}"
    )
    places = [line.split(" ")[0] for line in refusal(write(text)).splitlines()]
    assert [f"m.yaml:{place}:" for place in ("5:5", "6:1", "7:11", "7:21", "8:18", "8:38")] == places


def test_a_mistake_that_a_scale_inherits_is_told_once(write):
    assert len(refusal(write(f"{USE}launches: 0\nscales: {{smoke: {{warmup: 1}}, paper: {{}}}}")).splitlines()) == 1


def test_a_scale_the_manifest_does_not_have_is_answered_with_those_it_has(write):
    path = write(f"{USE}scales: {{paper: {{}}}}")
    assert refusal(path, "smoke") == "m.yaml: has no scale 'smoke'; it has: laptop, paper"


def test_a_scale_changes_what_it_names_and_nothing_else(write):
    text = (
        f"{USE}    parameters: {{exchanges: 5, pairs: 1}}\n    sweep: {{matrix: {{message_bytes: [1, 2]}}}}\n"
        "launches: 9\ntestbed: {nodes: 2, resources: {cpus: 1.5}}\n"
        "scales:\n  smoke:\n    repetitions: 2\n    testbed: {resources: {memory: 1GiB}}\n"
        "    benchmarks: {latency: {parameters: {exchanges: 1}, sweep: {matrix: {message_bytes: [8]}}}}\n"
    )
    plain, smoke = (manifest.load(write(text), scale).manifest for scale in ("laptop", "smoke"))
    assert (plain.launches, plain.repetitions) == (9, 20)
    assert (smoke.launches, smoke.repetitions) == (9, 2)
    assert (smoke.testbed.nodes, smoke.testbed.resources.cpus, smoke.testbed.resources.memory) == (2, 1.5, 1 << 30)
    assert smoke.benchmarks[0].parameters == {"exchanges": 1, "pairs": 1}
    assert smoke.benchmarks[0].sweep.matrix["message_bytes"].expand() == [8]


def test_an_override_goes_to_the_benchmark_of_its_label(write):
    text = (
        f"{USE}  - benchmark: p2p.latency\n    label: other\n"
        "scales: {smoke: {benchmarks: {other: {parameters: {pairs: 1}}}}}"
    )
    first, second = manifest.load(write(text), "smoke").manifest.benchmarks
    assert (first.parameters, second.parameters) == ({}, {"pairs": 1})


@pytest.mark.parametrize(
    ("values", "axis"),
    [
        ([1, 2], "[1, 2]"),
        (["1KiB", 2], "{values: [1KiB, 2]}"),
        ([0, 1, 2, 4], "{log2: {from: 1, to: 4}, include: [0]}"),
        ([1024, 2048], "{log2: {from: 1KiB, to: 3KiB}}"),
        ([1, 3, 5], "{range: {from: 1, to: 5, step: 2}}"),
        ([1, 2], "{range: {from: 1, to: 2}}"),
    ],
)
def test_an_axis_has_its_forms(values, axis, write):
    loaded = manifest.load(write(f"{USE}    sweep: {{matrix: {{message_bytes: {axis}}}}}"))
    assert values == loaded.manifest.benchmarks[0].sweep.matrix["message_bytes"].expand()


@pytest.mark.parametrize("scale", manifest.SCALES)
def test_the_quickstart_is_valid_at_every_scale(scale):
    assert manifest.load(QUICKSTART, scale).manifest.name == "quickstart"


def test_the_json_schema_accepts_the_quickstart_and_refuses_an_unknown_key():
    schema = json.loads(json.dumps(manifest.json_schema()))
    document = yaml.safe_load(QUICKSTART.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    for wrong in ({"lanches": 3}, {"launches": 0}, {"fabric": "sci"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document | wrong, schema)
