"""Every manifest that comes along: planned at every scale it has, and run at its smallest on every backend."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from orchestrator import backends, experiment, manifest, plan, project, yaml_source
from tests.conftest import MPIBED

MANIFESTS = sorted(path for path in project.EXPERIMENTS.rglob("*.yaml") if "fabrics" not in path.parts)
BACKENDS = [
    pytest.param("local", "local", marks=pytest.mark.local),
    pytest.param("docker", "docker_backend", marks=pytest.mark.docker),
]

each_manifest = pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: str(path.relative_to(project.EXPERIMENTS)))


def scales(path: Path) -> list[str]:
    return ["laptop", *(set(yaml_source.read(path).plain().get("scales", {})) - {"laptop"})]


@each_manifest
def test_it_has_a_smoke_scale_and_a_name_after_its_file(path):
    assert "smoke" in scales(path)
    assert path.stem == manifest.load(path).manifest.name


@each_manifest
@pytest.mark.parametrize("backend", backends.NAMES)
def test_it_can_be_planned_at_every_scale(path, backend):
    for scale in scales(path):
        resolved = experiment.resolve(manifest.load(path, scale))
        made = plan.make(resolved, backend=backend, identity="not built", seed=0, cores=2)
        assert len(made.cells) * resolved.manifest.launches == len(made.order) > 0


@each_manifest
@pytest.mark.parametrize(("backend", "needs"), BACKENDS)
def test_it_runs_at_smoke_scale(path, backend, needs, request, tmp_path):
    request.getfixturevalue(needs)
    done = subprocess.run(
        [MPIBED, "run", path, "--backend", backend, "--scale", "smoke", "--results", tmp_path],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = [one for one in tmp_path.glob("*/*") if not one.is_symlink()]
    planned = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    records = [json.loads(one.read_text(encoding="utf-8")) for one in folder.glob("raw/*/[0-9]*.[0-9]*.json")]
    assert {"ok": len(planned["order"])} == Counter(record["status"] for record in records)
    assert (folder / "index.html").is_file()
