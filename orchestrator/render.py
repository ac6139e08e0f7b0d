"""How events look: a progress bar on a terminal, plain lines elsewhere, JSON lines for programs, or nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

from orchestrator import events
from orchestrator.events import Emit, Event
from orchestrator.units import show_seconds


@contextmanager
def renderer(*, as_json: bool, quiet: bool) -> Iterator[Emit]:
    """What to hand to the core as `emit`; on the way out, the display is ended."""
    if as_json:
        yield _json
    elif quiet:
        yield _warnings_only
    elif sys.stdout.isatty():
        with _bar() as emit:
            yield emit
    else:
        yield _lines(lambda text: print(text, flush=True))


def _json(event: Event) -> None:
    print(json.dumps({"event": type(event).__name__, **asdict(event)}), flush=True)


def _warnings_only(event: Event) -> None:
    if isinstance(event, events.Warned):
        print(f"warning: {event.text}", file=sys.stderr)


def _lines(say: Callable[[str], None]) -> Emit:
    done = total = 0

    def emit(event: Event) -> None:
        nonlocal done, total
        match event:
            case events.Step(text):
                say(f"{text} ...")
            case events.Warned(text):
                say(f"warning: {text}")
            case events.RunStarted(run, directory, total_, finished, estimated_s):
                done, total = finished, total_
                already = f", {finished} finished already" if finished else ""
                say(f"run {run}: {total} launches{already}, about {show_seconds(estimated_s)}; results in {directory}")
            case events.LaunchEnded(_, label, launch, status, reason, duration_s):
                done += 1
                because = f": {reason}" if reason else ""
                say(f"[{done}/{total}] {label} launch {launch}: {status} in {show_seconds(duration_s)}{because}")

    return emit


@contextmanager
def _bar() -> Iterator[Emit]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console()
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)

        def emit(event: Event) -> None:
            match event:
                case events.Step(text):
                    progress.update(task, description=escape(text))
                case events.Warned(text):
                    console.print(f"[yellow]warning:[/] {escape(text)}")
                case events.RunStarted(run, directory, launches, finished, _):
                    console.print(f"run [bold]{escape(run)}[/], results in {escape(directory)}")
                    progress.update(task, total=launches, completed=finished)
                case events.LaunchStarted(_, label, launch, parameters):
                    progress.update(task, description=escape(f"{label} launch {launch} {parameters}"))
                case events.LaunchEnded(_, label, launch, status, reason, _):
                    progress.advance(task)
                    if status != "ok":
                        console.print(f"[red]{status}[/] {escape(f'{label} launch {launch}: {reason}')}")

        yield emit
