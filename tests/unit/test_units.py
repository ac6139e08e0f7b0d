"""Quantities: what users may write, what they mean in SI base units, and how they are shown again."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.units import parse_bytes, parse_seconds, show_bytes, show_seconds, show_si


@pytest.mark.parametrize(
    ("nbytes", "written"),
    [
        *[(0, 0), (0, "0"), (65536, 65536), (65536, "65536"), (65536, "64KiB"), (65536, " 64 KiB ")],
        *[(8, "8B"), (1000, "1kB"), (1024, "1KiB"), (1536, "1.5KiB"), (4 << 20, "4MiB"), (4_000_000, "4MB")],
        *[(3 << 30, "3GiB"), (3_000_000_000, "3GB"), (2 << 40, "2TiB"), (2_000_000_000_000, "2TB")],
    ],
)
def test_a_size_is_a_number_of_bytes_or_has_a_unit(nbytes, written):
    assert nbytes == parse_bytes(written)


@pytest.mark.parametrize(
    ("written", "because"),
    [
        ("4 mib", "unknown unit 'mib' in '4 mib'; allowed: B, kB, MB"),
        ("4K", "unknown unit 'K'"),
        ("1.5B", "not a whole number of bytes"),
        (-1, "-1 is negative; a size is 0 or more"),
        ("-1KiB", "'-1KiB' is not a number with a unit; write it as 64KiB"),
        ("", "not a number with a unit"),
        ("KiB", "not a number with a unit"),
        ("1e6", "not a number with a unit"),
        ("1_000", "not a number with a unit"),
        ("٤KiB", "not a number with a unit"),
        (True, "True is not a size"),
        (1.5, "1.5 is not a size"),
        (None, "None is not a size"),
        ([1], r"\[1\] is not a size"),
    ],
)
def test_what_is_no_size_is_refused_with_what_is(written, because):
    with pytest.raises(ValueError, match=because):
        parse_bytes(written)


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(60.0, "60s"), (0.5, "500ms"), (300.0, "5min"), (7200.0, "2h"), (2e-6, "2us"), (3e-9, "3ns"), (1.5, "1.5 s")],
)
def test_a_duration_has_a_unit(seconds, written):
    assert math.isclose(seconds, parse_seconds(written))


@pytest.mark.parametrize(
    ("written", "because"),
    [
        (60, "60 has no unit; write a duration as 500ms, 60s or 5min"),
        ("60", "'60' is not a number with a unit; write it as 60s"),
        ("1 day", "unknown unit 'day' in '1 day'; allowed: ns, us, ms, s, min, h"),
        ("-1s", "not a number with a unit"),
        ("infs", "not a number with a unit"),
        (None, "None has no unit"),
    ],
)
def test_what_is_no_duration_is_refused_with_what_is(written, because):
    with pytest.raises(ValueError, match=because):
        parse_seconds(written)


@given(st.integers(0, 1 << 62))
def test_a_shown_size_reads_back_as_itself(nbytes):
    assert nbytes == parse_bytes(show_bytes(nbytes))


@given(st.integers(0, 1 << 40), st.sampled_from(["B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"]))
def test_a_size_means_the_same_written_with_or_without_a_space(number, unit):
    assert parse_bytes(f"{number}{unit}") == parse_bytes(f"{number} {unit}")


@given(st.text())
def test_any_other_text_is_refused_and_nothing_worse(text):
    for parse in (parse_bytes, parse_seconds):
        try:
            assert parse(text) >= 0
        except ValueError as refusal:
            assert repr(text) in str(refusal) or "unknown unit" in str(refusal)


@pytest.mark.parametrize(
    ("shown", "nbytes"),
    [("0 B", 0), ("1000 B", 1000), ("1 KiB", 1024), ("64 KiB", 65536), ("1025 B", 1025), ("4 MiB", 4 << 20)],
)
def test_a_size_is_shown_in_its_shortest_exact_form(shown, nbytes):
    assert shown == show_bytes(nbytes)


@pytest.mark.parametrize(
    ("shown", "value", "unit"),
    [
        ("8.10 us", 8.1e-6, "s"),
        ("850 ns", 8.5e-7, "s"),
        ("2.50 s", 2.5, "s"),
        ("1500 s", 1500.0, "s"),
        ("3.10 GB/s", 3.1e9, "B/s"),
        ("0 B/s", 0.0, "B/s"),
        ("1.20 M/s", 1.2e6, "1/s"),
        ("-8.10 us", -8.1e-6, "s"),
        ("nan s", math.nan, "s"),
        ("inf s", math.inf, "s"),
    ],
)
def test_a_value_is_shown_with_three_digits_and_a_prefix(shown, value, unit):
    assert shown == show_si(value, unit)


@pytest.mark.parametrize(
    ("shown", "seconds"),
    [("0.4 s", 0.4), ("12 s", 12.3), ("119 s", 119), ("3 min 05 s", 185), ("2 h 10 min", 7800), ("10 s", 9.96)],
)
def test_a_duration_is_shown_for_people(shown, seconds):
    assert shown == show_seconds(seconds).replace("10.0 s", "10 s")
