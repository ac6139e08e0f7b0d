"""YAML text to plain data that remembers where each part stood in the file.

YAML 1.2 core schema (so `no` is a text, `1e6` a number), UTF-8 only, no tags, no duplicate keys; size, depth and the
number of nodes that aliases expand to are limited, so that a hostile file costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from orchestrator.errors import ManifestError

MAX_BYTES = 1 << 20
MAX_NODES = 50_000
MAX_DEPTH = 50
Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Tree:
    """A mapping, a sequence or a scalar, with its place. `keys` are the places of a mapping's keys."""

    value: dict[str, Tree] | list[Tree] | str | int | float | bool | None
    line: int
    column: int
    keys: dict[str, tuple[int, int]]

    def plain(self) -> Any:
        """The data alone."""
        if isinstance(self.value, dict):
            return {key: tree.plain() for key, tree in self.value.items()}
        if isinstance(self.value, list):
            return [tree.plain() for tree in self.value]
        return self.value

    def place(self, path: Sequence[str | int]) -> tuple[int, int]:
        """Line and column (from 1) of the deepest part of the path that exists: of its key, if it has one.

        Steps that the file does not have are passed over: they stand for what a short form leaves out.
        """
        tree, place = self, (self.line, self.column)
        for step in path:
            if isinstance(tree.value, dict) and step in tree.value:
                place = tree.keys[str(step)]
                tree = tree.value[str(step)]
            elif isinstance(tree.value, list) and isinstance(step, int) and step < len(tree.value):
                tree = tree.value[step]
                place = (tree.line, tree.column)
        return place


class _CoreLoader(yaml.SafeLoader):
    """Reads plain scalars as YAML 1.2's core schema does (section 10.3.2)."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 (declared so by the base class)


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
     list("-+.0123456789")),
):  # fmt: skip
    _CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)

_BASES = {"0o": 8, "0x": 16}
_CoreLoader.add_constructor(
    "tag:yaml.org,2002:int", lambda _, node: int(node.value, _BASES.get(node.value[:2], 10))
)  # YAML 1.1, the base class's, takes 010 for octal


def read(path: Path) -> Tree:
    """The file's one document; ManifestError with the place of what is wrong."""
    try:
        with path.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read ({error.strerror}); name an existing manifest") from error
    if len(raw) > MAX_BYTES:
        raise ManifestError(f"{path}: is larger than {MAX_BYTES} bytes, which no manifest needs")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        place = _place_after(raw[: error.start].decode("utf-8"))
        raise ManifestError(f"{path}:{place}: byte 0x{raw[error.start]:02x} is not UTF-8; save it as UTF-8") from error
    return parse(text, str(path))


def parse(text: str, name: str) -> Tree:
    """As `read`, from a text; `name` stands for the file in messages."""
    try:
        loader = _CoreLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise ManifestError(f"{name}:1:1: is empty; a manifest begins with `schema: 1`")
        return _Growing(loader, name).tree(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{mark.line + 1}:{mark.column + 1}" if mark else "1:1"
        raise ManifestError(
            f"{name}:{place}: {error.problem or error.context}; this is not well-formed YAML"
        ) from error
    except yaml.reader.ReaderError as error:
        place = _place_after(text[: error.position])
        raise ManifestError(f"{name}:{place}: the character {text[error.position]!r} is not allowed in YAML") from error
    except RecursionError as error:
        raise ManifestError(f"{name}:1:1: is nested too deeply for a manifest") from error


def _place_after(text: str) -> str:
    return f"{text.count(chr(10)) + 1}:{len(text) - text.rfind(chr(10))}"


class _Growing:
    """Makes a Tree of what the loader composed, within the limits."""

    def __init__(self, loader: _CoreLoader, name: str) -> None:
        self._loader, self._name, self._nodes = loader, name, 0

    def tree(self, node: yaml.Node, depth: int = 0) -> Tree:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._error(node, f"expands to more than {MAX_NODES} values; use fewer aliases")
        if depth > MAX_DEPTH:
            raise self._error(node, f"is nested more than {MAX_DEPTH} deep; no manifest needs that")
        plain = isinstance(node, yaml.ScalarNode) and node.style is None
        usual = self._loader.resolve(type(node), node.value, (plain, not plain))  # type: ignore[no-untyped-call]
        if node.tag != usual:
            raise self._error(node, f"the tag {node.tag!r} is not allowed; write plain values")
        keys: dict[str, tuple[int, int]] = {}
        value: Any
        if isinstance(node, yaml.MappingNode):
            value = {}
            for key, item in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise self._error(key, "a key must be a name")
                if key.value in value:
                    raise self._error(key, f"{key.value!r} is given twice; keep one")
                value[key.value] = self.tree(item, depth + 1)
                keys[key.value] = _place(key)
        elif isinstance(node, yaml.SequenceNode):
            value = [self.tree(item, depth + 1) for item in node.value]
        else:
            try:
                value = self._loader.construct_object(node)
            except ValueError as error:
                raise self._error(node, f"a number of {len(node.value)} digits is too long") from error
        return Tree(value, *_place(node), keys)

    def _error(self, node: yaml.Node, text: str) -> ManifestError:
        line, column = _place(node)
        return ManifestError(f"{self._name}:{line}:{column}: {text}")


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def merged(base: Tree, over: Tree, deep: frozenset[Path_], at: Path_ = ()) -> Tree:
    """`base` with the parts of `over` in place of its own; only mappings at a path in `deep` are merged key by key."""
    if not (isinstance(base.value, dict) and isinstance(over.value, dict) and (not at or at in deep)):
        return over
    values, keys = dict(base.value), dict(base.keys)
    for key, tree in over.value.items():
        values[key] = merged(values[key], tree, deep, (*at, key)) if key in values else tree
        keys[key] = over.keys[key]
    return Tree(values, base.line, base.column, keys)


def items(tree: Tree | None) -> Iterator[tuple[str, Tree]]:
    """The entries of a mapping; nothing for anything else."""
    if tree is not None and isinstance(tree.value, dict):
        yield from tree.value.items()
