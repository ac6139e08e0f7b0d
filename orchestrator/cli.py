"""The command `mpibed`: one thin function per verb. Logic lives elsewhere and is imported by the verb that needs it."""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.errors import MpibedError

if TYPE_CHECKING:
    from orchestrator.experiment import Experiment
    from orchestrator.records import RunFolder

app = typer.Typer(
    name="mpibed", help="MPI testbeds, declarative experiments, tidy CSVs.", no_args_is_help=True,
    rich_markup_mode=None, pretty_exceptions_enable=False,
)  # fmt: skip


class Scale(StrEnum):
    """How large: seconds, minutes, or the paper's own sizes."""

    SMOKE = "smoke"
    LAPTOP = "laptop"
    PAPER = "paper"


class BackendName(StrEnum):
    """What the nodes are made of; auto takes docker where it answers, else local."""

    AUTO = "auto"
    LOCAL = "local"
    DOCKER = "docker"


class TransportName(StrEnum):
    """How MPICH moves bytes."""

    AUTO = "auto"
    NATIVE = "native"
    TCP = "tcp"
    OFI_SHM = "ofi-shm"


ManifestPath = Annotated[Path, typer.Argument(metavar="MANIFEST", help="a YAML file")]
AsJson = Annotated[bool, typer.Option("--json", help="for programs: JSON")]
AtScale = Annotated[Scale, typer.Option("--scale", help="which sizes of the manifest to take")]
OnBackend = Annotated[BackendName, typer.Option("--backend", help="what the nodes are made of")]
RunId = Annotated[str | None, typer.Argument(metavar="RUN", help="id of the testbed; not needed when there is one")]
Results = Annotated[Path, typer.Option("--results", help="folder of all results")]


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Show what this machine can do, and the remedy for what it cannot."""
    from orchestrator import doctor as checkup

    sections = checkup.checks()
    if as_json:
        print(
            json.dumps({name: [dataclasses.asdict(c) for c in checks] for name, checks in sections.items()}, indent=1)
        )
        return
    from orchestrator import screen

    screen.doctor(sections)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List benchmarks with their parameters, backends, fabrics and manifests."""
    from orchestrator import catalogue

    contents = catalogue.contents()
    if as_json:
        print(json.dumps(contents, indent=1))
        return
    from orchestrator import screen

    screen.listing(contents)


@app.command()
def plan(
    manifest: ManifestPath,
    backend: Annotated[BackendName, typer.Option(help="for which backend")] = BackendName.LOCAL,
    scale: AtScale = Scale.LAPTOP,
    only: Annotated[str | None, typer.Option(help="cells for which this expression is true")] = None,
    seed: Annotated[int, typer.Option(help="of the order")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show cells, counts, order, forecast and warnings. Needs neither root nor Docker; nothing is created."""
    from orchestrator import host, runner
    from orchestrator import plan as planning

    experiment = _experiment(manifest, scale)
    name = "local" if backend is BackendName.AUTO else backend.value
    made = planning.make(experiment, backend=name, identity="not built", seed=seed, cores=host.cores())
    made = runner.filtered(made, only)
    if as_json:
        print(json.dumps(planning.to_json(made), indent=1))
        return
    from orchestrator import screen

    screen.plan(experiment, made, name)


@app.command()
def run(
    manifest: ManifestPath,
    backend: OnBackend = BackendName.AUTO,
    results: Results = Path("results"),
    resume: Annotated[
        bool | None,
        typer.Option(
            "--resume/--fresh",
            help="go on with the latest run, or start a new one; by default go on if it is unfinished",
        ),
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="cells for which this expression is true, as `8 in message_bytes`")
    ] = None,
    scale: AtScale = Scale.LAPTOP,
    seed: Annotated[int | None, typer.Option(min=0, help="of the execution order")] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="print warnings and the final table only")] = False,
) -> None:
    """Run an experiment: launches, CSVs, figures, page. Finished launches are never run again."""
    from orchestrator import backends, events, render, runner

    experiment = _experiment(manifest, scale)
    options = runner.Options(results, seed, only, resume)
    try:
        with render.renderer(as_json=as_json, quiet=quiet) as emit:
            chosen = backends.choose(backend.value, lambda text: emit(events.Step(text)))
            result = runner.run(experiment, chosen, options, emit)
    except KeyboardInterrupt:
        print("interrupted; everything was taken down, finished launches are kept: run again to go on", file=sys.stderr)
        raise typer.Exit(130) from None
    page = _report(result.folder, show=not as_json)
    if as_json:
        ended = events.RunEnded(result.folder.run, str(result.folder.path), result.ok, result.failed, str(page))
        print(json.dumps({"event": "RunEnded", **dataclasses.asdict(ended)}))
    if result.lost:
        raise MpibedError(f"the run ended early: {result.lost}; run again to go on")
    if result.failed or not result.ok:
        raise MpibedError(
            f"{result.failed} launches failed and {result.ok} are ok; {result.folder.path}/launches.csv says why"
        )


@app.command()
def up(manifest: ManifestPath, backend: OnBackend = BackendName.AUTO, scale: AtScale = Scale.LAPTOP) -> None:
    """Create the manifest's testbed and leave it for `exec`; prints its id."""
    from orchestrator import backends, interactive

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    print(interactive.up(_experiment(manifest, scale), backends.choose(backend.value, say), say))


@app.command("exec", context_settings={"ignore_unknown_options": True})
def exec_(
    command: Annotated[list[str], typer.Argument(metavar="-- [mpiexec] [-n N] [-ppn K] PROGRAM [ARGUMENTS]")],
    run: Annotated[str | None, typer.Option(help="id of the testbed; not needed when there is one")] = None,
    transport: Annotated[TransportName, typer.Option(help="how MPICH moves bytes")] = TransportName.AUTO,
) -> None:
    """Run any MPI program on a testbed made by `up`."""
    from orchestrator import interactive

    outcome = interactive.execute(
        run, command, transport.value,
        lambda stream, line: print(line, file=sys.stdout if stream == "stdout" else sys.stderr, flush=True),
    )  # fmt: skip
    raise typer.Exit(outcome.exit_code if outcome.exit_code is not None else 1)


@app.command()
def down(run: RunId = None) -> None:
    """Remove a testbed made by `up`."""
    from orchestrator import interactive

    print("\n".join(f"removed {thing}" for thing in interactive.down(run)))


@app.command()
def gc() -> None:
    """Find and remove everything labelled by runs that no longer live."""
    from orchestrator import interactive

    removed = interactive.collect_garbage()
    print("\n".join(f"removed {thing}" for thing in removed) or "nothing to remove")


@app.command()
def report(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="a run's folder, or its id under --results")] = None,
    results: Results = Path("results"),
) -> None:
    """Rebuild tables, figures and page of a run from its raw records alone; without RUN, one page over all runs."""
    from orchestrator import records, report

    if run is None:
        print(report.build_overview(results))
    else:
        _report(records.find(results, run), show=True)


@app.command()
def schema() -> None:
    """Print the JSON Schema of manifests, for editors."""
    from orchestrator import manifest

    print(json.dumps(manifest.json_schema(), indent=2))


def _experiment(path: Path, scale: Scale) -> Experiment:
    from orchestrator import experiment, manifest

    return experiment.resolve(manifest.load(path, scale.value))


def _report(folder: RunFolder, *, show: bool) -> Path:
    """Tables, figures, page; and the short table on the screen."""
    from orchestrator import records, report, tables

    with records.writing(folder.path):
        tables.collect(folder)
        page = report.build(folder.path)
    if show:
        from orchestrator import screen

        screen.summary(tables.read_run(folder, "summary"), tables.read_run(folder, "launches"), folder.path)
    return page


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """The entry point: a user's mistake ends in one sentence, never in a traceback."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app(prog_name="mpibed")
    except MpibedError as error:
        print(f"mpibed: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(141)
