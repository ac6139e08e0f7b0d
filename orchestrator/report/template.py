"""Templates to pages: everything is escaped unless it is our own markup, and a name that is not given is an error."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

_HERE = Path(__file__).parent


def render(name: str, **context: object) -> str:
    """The template `name.html.j2` with the context and, as `css`, the style that all pages share."""
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    css = Markup((_HERE / "page.css").read_text(encoding="utf-8"))
    return environment.get_template(f"{name}.html.j2").render(css=css, **context)
