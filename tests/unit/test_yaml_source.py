"""YAML files to plain data with places: the core schema of YAML 1.2, and files made to do harm."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import yaml_source
from orchestrator.errors import ManifestError
from orchestrator.yaml_source import MAX_BYTES, MAX_DEPTH, parse, read


def value_of(scalar: str) -> object:
    return parse(f"key: {scalar}", "m").plain()["key"]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        *[(word, word) for word in ("no", "yes", "on", "off", "n", "NO", "12:30", "2026-01-31", "1_000", "=", "<<")],
        *[(True, "true"), (True, "TRUE"), (False, "False"), (None, "~"), (None, "null"), (None, "")],
        *[(7, "7"), (-7, "-7"), (7, "+7"), (10, "010"), (9, "09"), (15, "0o17"), (255, "0xFF"), ("0b1", "0b1")],
        *[(1e6, "1e6"), (0.5, ".5"), (5.0, "5."), (1.5e-3, "1.5E-3"), (math.inf, ".inf"), (-math.inf, "-.INF")],
        *[("7", "'7'"), ("true", '"true"'), ("a b", "a b"), ("é", "é")],
    ],
)
def test_scalars_are_read_as_yaml_1_2_has_them(value, written):
    found = value_of(written)
    assert (type(value), value) == (type(found), found)


def test_nan_is_a_number():
    assert math.isnan(value_of(".nan"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "m:1:1: is empty; a manifest begins with `schema: 1`"),
        ("# only a comment\n", "m:1:1: is empty"),
        ("a: 1\nb: 2\na: 3\n", "m:3:1: 'a' is given twice; keep one"),
        ("a: {b: 1, 'b': 2}", "m:1:11: 'b' is given twice"),
        ("a: !!python/object:os.system x", "m:1:4: the tag 'tag:yaml.org,2002:python/object:os.system' is not allowed"),
        ("a: !mine x", "m:1:4: the tag '!mine' is not allowed; write plain values"),
        ("a: !!int x", "m:1:4: the tag 'tag:yaml.org,2002:int' is not allowed"),
        ("a: !!str 5", "m:1:4: the tag 'tag:yaml.org,2002:str' is not allowed"),
        ("a: !!set {b}", "m:1:4: the tag 'tag:yaml.org,2002:set' is not allowed"),
        ("a: !mine [1]", "m:1:4: the tag '!mine' is not allowed"),
        ("a: !!binary aGk=", "m:1:4: the tag 'tag:yaml.org,2002:binary' is not allowed"),
        ("? [1, 2]\n: 3", "m:1:3: a key must be a name"),
        ("a: 1\n b: 2", "m:2:3: mapping values are not allowed here; this is not well-formed YAML"),
        ("a: [1,\n", "m:2:1: "),
        ("a: *nobody", "m:1:4: found undefined alias 'nobody'"),
        ("a: 1\n---\nb: 2", "m:2:1: but found another document"),
        ("a:\n\t- 1", "m:2:1: found character '\\t' that cannot start any token"),
        ("a: 1\nb: \0", "m:2:4: the character '\\x00' is not allowed in YAML"),
        ("a: " + "9" * 5000, "m:1:4: a number of 5000 digits is too long"),
    ],
)
def test_a_text_that_is_no_manifest_is_refused_at_its_place(text, message):
    with pytest.raises(ManifestError) as refusal:
        parse(text, "m")
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize("before", ["", "a: é", "a: 1\nb: é"])
def test_a_byte_that_is_not_utf8_is_told_with_line_and_column(before, tmp_path):
    path = tmp_path / "m.yaml"
    path.write_bytes(before.encode() + b"\xff\n")
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    with pytest.raises(ManifestError) as refusal:
        read(path)
    assert f"{path}:{line}:{column}: byte 0xff is not UTF-8; save it as UTF-8" == str(refusal.value)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read(path).plain() == {"a": 1}


def test_a_file_of_the_largest_size_is_read_and_one_byte_more_is_not(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_bytes(b"a: 1\n#".ljust(MAX_BYTES, b"x"))
    assert read(path).plain() == {"a": 1}
    path.write_bytes(b"a: 1\n#".ljust(MAX_BYTES + 1, b"x"))
    with pytest.raises(ManifestError, match=f"is larger than {MAX_BYTES} bytes"):
        read(path)


def test_a_file_without_end_is_not_read_to_its_end():
    with pytest.raises(ManifestError, match=f"/dev/zero: is larger than {MAX_BYTES} bytes"):
        read(Path("/dev/zero"))


@pytest.mark.parametrize(("name", "because"), [("", "Is a directory"), ("missing.yaml", "No such file or directory")])
def test_what_cannot_be_read_is_named_with_the_reason(name, because, tmp_path):
    with pytest.raises(ManifestError) as refusal:
        read(tmp_path / name)
    assert f"{tmp_path / name}: cannot be read ({because}); name an existing manifest" == str(refusal.value)


def test_aliases_that_would_expand_to_billions_are_refused_at_once():
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(ManifestError, match="expands to more than 50000 values; use fewer aliases"):
        parse("\n".join(["l0: &l0 [x, x]", *levels]), "m")


def test_an_alias_of_itself_is_refused():
    with pytest.raises(ManifestError, match="is nested"):
        parse("a: &a [*a]", "m")


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}")])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 2, 200, 400, 1000, 20_000])
def test_deep_nesting_is_refused_however_deep(opening, closing, depth):
    with pytest.raises(ManifestError, match="nested"):
        parse(opening * depth + closing * depth, "m")


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "&a "])
def test_a_long_text_of_openings_is_refused(opening):
    with pytest.raises(ManifestError):
        parse(opening * (MAX_BYTES // len(opening) // 32), "m")


TEXT = """\
name: x
list:
  - one
  - two: {three: 3}
"""


@pytest.mark.parametrize(
    ("place", "path"),
    [
        *[((1, 1), ()), ((1, 1), ("name",)), ((2, 1), ("list",)), ((3, 5), ("list", 0)), ((4, 5), ("list", 1))],
        *[((4, 5), ("list", 1, "two")), ((4, 11), ("list", 1, "two", "three"))],
        *[((1, 1), ("missing",)), ((2, 1), ("list", 7)), ((4, 11), ("list", 1, "short", "two", "three"))],
    ],
)
def test_the_place_of_a_path_is_that_of_its_deepest_part(place, path):
    assert place == parse(TEXT, "m").place(path)


@given(st.text(max_size=200))
def test_any_text_is_either_read_or_refused_with_a_place(text):
    try:
        parse(text, "m").plain()
    except ManifestError as refusal:
        assert str(refusal).startswith("m:")


def test_only_mappings_named_deep_are_merged_key_by_key():
    base = parse("a: {x: 1, y: 2}\nb: {x: 1, y: 2}\nc: 3", "m")
    over = parse("a: {y: 5}\nb: {y: 5}\nd: 4", "m")
    merged = yaml_source.merged(base, over, frozenset({("a",)}))
    assert merged.plain() == {"a": {"x": 1, "y": 5}, "b": {"y": 5}, "c": 3, "d": 4}
