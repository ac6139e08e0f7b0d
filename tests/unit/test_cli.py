"""The command line: help, exit codes, and one sentence for a user's mistake. Needs neither Docker nor MPI."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import jsonschema
import pytest
import yaml

from orchestrator import cli, project
from tests.conftest import MPIBED, QUICKSTART
from tests.unit.test_manifest import USE

VERBS = ("doctor", "list", "plan", "run", "up", "exec", "down", "gc", "report", "schema")


class Done(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def mpibed(monkeypatch, capsys, tmp_path):
    """The command, on a machine without Docker, in an empty folder, with a cache of its own."""
    for name, value in (("DOCKER_HOST", "unix:///nonexistent"), ("COLUMNS", "120"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")

    def call(*words: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["mpibed", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return Done(int(end.value.code or 0), *capsys.readouterr())

    before = signal.getsignal(signal.SIGTERM)
    yield call
    signal.signal(signal.SIGTERM, before)


def test_help_names_every_verb(mpibed):
    done = mpibed("--help")
    assert done.exit_code == 0
    assert all(f" {verb} " in done.stdout for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(mpibed, verb):
    done = mpibed(verb, "--help")
    assert done.exit_code == 0, done.stderr
    assert f"Usage: mpibed {verb}" in done.stdout


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_plan_shows_the_quickstart_without_docker_and_creates_nothing(mpibed, scale):
    done = mpibed("plan", QUICKSTART, "--scale", scale)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "4 cells x " in done.stdout
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("backend", ["local", "docker", "auto"])
def test_plan_as_json_has_cells_and_order(mpibed, backend):
    done = mpibed("plan", QUICKSTART, "--scale", "smoke", "--backend", backend, "--json", "--seed", 3)
    made = json.loads(done.stdout)
    assert (len(made["cells"]), len(made["order"]), made["seed"]) == (4, 4, 3)


def test_plan_of_some_cells_counts_those(mpibed):
    done = mpibed("plan", QUICKSTART, "--only", "label == 'latency'")
    assert "1 cells x 6 launches = 6 launches" in done.stdout


@pytest.mark.parametrize(
    ("exit_code", "because", "words"),
    [
        (2, "m.yaml:5:1: lanches: unknown key 'lanches'", ["plan", "{bad}"]),
        (2, "m.yaml:5:1: lanches: unknown key 'lanches'", ["run", "{bad}"]),
        (2, "m.yaml:5:1: lanches: unknown key 'lanches'", ["up", "{bad}"]),
        (2, "cannot be read (No such file or directory)", ["plan", "missing.yaml"]),
        (2, "cannot be read (Is a directory)", ["plan", "{folder}"]),
        (2, "has no scale 'smoke'; it has: laptop", ["plan", "{good}", "--scale", "smoke"]),
        (2, "--only: unknown name 'x'", ["plan", "{good}", "--only", "x == 1"]),
        (2, "--only: 'open(1)' uses Call", ["plan", "{good}", "--only", "open(1)"]),
        (2, "--only 'pairs > 1' matches none of the 1 cells", ["plan", "{good}", "--only", "pairs > 1"]),
        (3, "Docker does not answer", ["run", "{good}", "--backend", "docker", "--results", "{folder}"]),
        (2, "there is no testbed", ["down"]),
        (2, "there is no testbed 'nobody'", ["down", "nobody"]),
        (2, "there is no testbed", ["exec", "--", "true"]),
        (2, "'-x' is not understood before the program", ["exec", "--", "-x", "true"]),
        (2, "no run 'nothing'", ["report", "nothing", "--results", "{folder}"]),
        (2, "holds no plan.json, so it is not a run", ["report", "{folder}"]),
    ],
)
def test_a_mistake_ends_in_a_sentence_and_its_exit_code(mpibed, exit_code, because, words, write, tmp_path):
    places = {"bad": write(f"{USE}lanches: 3\n"), "folder": tmp_path}
    places["good"] = tmp_path / "good.yaml"
    places["good"].write_text(USE, encoding="utf-8")
    done = mpibed(*[word.format_map(places) for word in words])
    assert (exit_code, "") == (done.exit_code, done.stdout)
    assert done.stderr.startswith("mpibed: ")
    assert because in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("because", "words"),
    [
        ("'k8s' is not one of", ["run", str(QUICKSTART), "--backend", "k8s"]),
        ("'tiny' is not one of", ["plan", str(QUICKSTART), "--scale", "tiny"]),
        ("No such command 'fly'", ["fly"]),
        ("No such option", ["plan", str(QUICKSTART), "--fast"]),
        ("Missing argument", ["plan"]),
        ("Invalid value for '--seed': Input should be a valid integer", ["plan", str(QUICKSTART), "--seed", "x"]),
        (
            "Invalid value for '--seed': Input should be greater than or equal to 0",
            ["run", str(QUICKSTART), "--seed", "-1"],
        ),
    ],
)
def test_a_mistyped_command_line_is_answered_with_usage_and_exit_code_2(mpibed, because, words):
    done = mpibed(*words)
    assert done.exit_code == 2
    assert because in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_list_as_json_has_everything_there_is(mpibed):
    contents = json.loads(mpibed("list", "--json").stdout)
    assert {"p2p.latency", "p2p.bandwidth"} <= {benchmark["name"] for benchmark in contents["benchmarks"]}
    assert contents["backends"] == ["local", "docker"]
    assert str(QUICKSTART.relative_to(project.ROOT)) in contents["manifests"]


def test_list_names_benchmarks_parameters_and_manifests(mpibed):
    shown = mpibed("list").stdout
    assert all(word in shown for word in ("p2p.latency", "message_bytes", "one_way_latency", "quickstart.yaml"))


def test_doctor_as_json_has_a_remedy_for_all_that_is_missing(mpibed):
    done = mpibed("doctor", "--json")
    sections = json.loads(done.stdout)
    assert {"machine", "local", "docker"} == set(sections)
    (engine,) = [check for check in sections["docker"] if check["name"] == "Docker engine"]
    assert (engine["ok"], done.exit_code) == (False, 0)
    assert all(check["remedy"] for checks in sections.values() for check in checks if not check["ok"])


def test_doctor_tells_what_it_saw(mpibed):
    assert "Docker engine" in mpibed("doctor").stdout


def test_gc_without_docker_looks_at_what_answers(mpibed):
    done = mpibed("gc")
    assert (done.exit_code, done.stdout) == (0, "nothing to remove\n")


def test_schema_prints_a_json_schema_that_the_quickstart_fits(mpibed):
    schema = json.loads(mpibed("schema").stdout)
    jsonschema.validate(yaml.safe_load(QUICKSTART.read_text(encoding="utf-8")), schema)


@pytest.mark.parametrize("words", ["schema", "list"])
def test_output_that_nobody_reads_to_its_end_is_no_error(words):

    done = subprocess.run(
        ["sh", "-c", f"'{MPIBED}' {words} | head -c 1"], capture_output=True, text=True, timeout=60, check=True
    )
    assert (len(done.stdout), done.stderr) == (1, "")
