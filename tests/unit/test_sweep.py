"""Sweeps: the laws of their points, and expressions that a manifest may hold and those it may not."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orchestrator import sweep

numbers = st.integers(-1000, 1000)
names = st.sampled_from(["a", "b", "c", "d", "e"])
axes = st.dictionaries(names, st.lists(numbers, min_size=1, max_size=5, unique=True), max_size=3)


@st.composite
def zipped_axes(draw):
    length = draw(st.integers(1, 5))
    return draw(st.dictionaries(names.map(str.upper), st.lists(numbers, min_size=length, max_size=length), max_size=3))


@given(axes, zipped_axes())
def test_points_are_the_product_of_the_axes_times_the_rows_of_the_zip(matrix, zipped):
    points = sweep.points({"fixed": 1}, matrix, zipped, [])
    rows = len(next(iter(zipped.values()))) if zipped else 1
    assert rows * math.prod(map(len, matrix.values())) == len(points)
    assert all({"fixed", *matrix, *zipped} == set(point) for point in points)
    assert all(point[name] in values for point in points for name, values in matrix.items())
    zip_rows = set(zip(*zipped.values(), strict=True)) or {()}
    assert zip_rows == {tuple(point[name] for name in zipped) for point in points}


@given(axes, st.integers(-1000, 1000))
def test_exclude_drops_exactly_the_points_it_holds_for(matrix, threshold):
    assume("a" in matrix)
    whole = sweep.points({}, matrix, {}, [])
    kept = sweep.points({}, matrix, {}, [f"a > {threshold}"])
    assert [point for point in whole if not point["a"] > threshold] == kept


def test_later_axes_vary_fastest():
    points = sweep.points({}, {"a": [1, 2], "b": [3, 4]}, {}, [])
    assert [(point["a"], point["b"]) for point in points] == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_a_sweep_beyond_the_limit_is_refused_without_being_spanned():
    axis = list(range(1000))
    with pytest.raises(ValueError, match="spans 1000000000000 points, more than the 100000 allowed"):
        sweep.points({}, dict.fromkeys("abcd", axis), {}, [])


@given(st.integers(-(10**6), 10**6), st.integers(0, 500), st.integers(1, 1000))
def test_an_arithmetic_range_includes_both_its_bounds(start, count, step):
    values = sweep.arithmetic(start, start + count * step, step)
    assert [start + index * step for index in range(count + 1)] == values


@given(st.integers(-100, 100), st.integers(1, 100), st.floats(0.01, 10))
def test_a_range_of_fractions_ends_at_its_bound_too(start, count, step):
    values = sweep.arithmetic(start, start + count * step, step)
    assert count + 1 == len(values)
    assert math.isclose(start + count * step, values[-1], abs_tol=1e-9)


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [
        *[(0, 1, 0), (0, 1, -1), (0, 1, math.nan), (0, math.nan, 1), (0, math.inf, 1), (-math.inf, 0, 1)],
        *[(0, 10**400, 1), (0, 10**9, 1), (0, 1, 1e-300)],
    ],
)
def test_a_range_that_makes_no_sense_is_refused(start, stop, step):
    with pytest.raises(ValueError, match=r"must be positive|is no range|more than the 100000 allowed"):
        sweep.arithmetic(start, stop, step)


def test_a_range_that_ends_before_it_begins_is_empty():
    assert [] == sweep.arithmetic(2, 1, 1) == sweep.powers_of_two(2, 1)


@given(st.integers(1, 1 << 40), st.integers(0, 1 << 50))
def test_powers_of_two_double_from_the_first_and_stop_short_of_doubling_past_the_last(start, extra):
    stop = start + extra
    values = sweep.powers_of_two(start, stop)
    assert start == values[0]
    assert all(2 * one == following for one, following in pairwise(values))
    assert values[-1] <= stop < 2 * values[-1]


@pytest.mark.parametrize("start", [0, -1])
def test_powers_of_two_begin_at_one_or_more(start):
    with pytest.raises(ValueError, match=f"log2 starts at {start}; it must be 1 or more"):
        sweep.powers_of_two(start, 8)


POINT = {"window": 64, "pairs": 2, "label": "wide", "sizes": (1, 8)}


@pytest.mark.parametrize(
    ("expected", "expression"),
    [
        *[(True, "window == 64"), (False, "window > 64"), (True, "1 < pairs <= 2"), (True, "not pairs == 3")],
        *[(True, "window == 64 and pairs == 2"), (True, "window == 1 or pairs == 2"), (True, "pairs in (1, 2)")],
        *[(True, "pairs in [1, 2]"), (True, "label == 'wide'"), (True, "8 in sizes"), (False, "9 in sizes")],
        *[(True, "window * pairs == 128"), (True, "window // 7 == 9"), (True, "window % 7 == 1"), (True, "-pairs < 0")],
    ],
)
def test_an_expression_compares_and_reckons(expected, expression):
    assert expected is sweep.condition(expression)(POINT)


@pytest.mark.parametrize(
    "expression",
    [
        *["", " ", "window ==", "window = 1", "import os", "window; pairs", "\0", "(" * 5000, "9" * 5000],
        *["open('x')", "window.real", "window.__class__", "().__class__.__bases__[0]", "__import__('os')"],
        *["sizes[0]", "lambda: 1", "[x for x in sizes]", "{1: 2}", "{1}", "f'{window:1000000000}'", "(y := 1)"],
        *["9**9**9", "2 ** 64", "1 << 1000000000", "window if 1 else 2", "*sizes", "await window", "..." + ".real"],
    ],
)
def test_what_is_no_expression_is_refused_before_anything_is_evaluated(expression):
    with pytest.raises(ValueError, match=r"is not an expression; write for example|uses \w+; allowed: comparisons"):
        sweep.names_in(expression)


@pytest.mark.parametrize(
    "expression",
    [
        *["nobody == 1", "__builtins__", "window < 'a'", "1 / 0", "'%1000000000d' % window", "b'%1000000000d' % 1"],
        *["'a' * 1000000000", "[1] * 1000000000", "not " * 500 + "window", "window * " * 900 + "1"],
    ],
)
def test_an_expression_that_cannot_be_evaluated_says_so_and_costs_nothing(expression):
    with pytest.raises(ValueError, match="cannot be evaluated"):
        sweep.condition(expression)(POINT)


@given(st.text(max_size=40))
def test_any_text_is_evaluated_or_refused(text):
    try:
        assert sweep.condition(text)(POINT) in (True, False)
    except ValueError as refusal:
        assert repr(text) in str(refusal)


def test_names_are_found_wherever_they_stand():
    assert {"a", "b", "c"} == sweep.names_in("a > 1 and not (b in (c, 2))")
