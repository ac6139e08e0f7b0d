"""Statistics: the launch is the unit, nothing is dropped, and an interval says the level it really has."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.analysis.statistics import (
    flag_outliers,
    launch_medians,
    median_interval,
    parameter_columns,
    summarise,
)


def samples(values: dict[int, list[float]], **columns: Any) -> pd.DataFrame:
    """One point of one cell: the repetitions of each launch."""
    rows = [
        {
            "run": "r", "cell": "c", "label": "l", "benchmark": "p2p.latency", "launch": launch, "nodes": 2,
            "ranks_per_node": 1, "message_bytes": 8, "rank": "all", "phase": "measure", "repetition": repetition,
            "metric": "one_way_latency", "value": value, "unit": "s", "better": "lower", "operations": 100,
        } | columns
        for launch, repetitions in values.items() for repetition, value in enumerate(repetitions)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def only(frame: pd.DataFrame) -> pd.Series:
    assert len(frame) == 1
    return frame.iloc[0]


def test_the_median_is_of_launch_medians_not_of_pooled_repetitions() -> None:
    found = only(summarise(samples({0: [1.0], 1: [2.0], 2: [9.0] * 50}), ["message_bytes"]))
    assert (found["median"], found["launches"], found["samples"]) == (2.0, 3, 52)


def test_warm_up_and_single_ranks_never_enter() -> None:
    counted = samples({0: [1.0, 2.0, 3.0]})
    others = [samples({0: [99.0]}, phase="warmup"), samples({0: [77.0]}, rank="0")]
    expected = summarise(counted, ["message_bytes"])
    pd.testing.assert_frame_equal(expected, summarise(pd.concat([*others, counted]), ["message_bytes"]))


def test_a_missing_parameter_makes_a_group_of_its_own() -> None:
    both = pd.concat([samples({0: [1.0]}, window=None), samples({0: [2.0]}, window=64)], ignore_index=True)
    found = summarise(both.astype({"window": "Int64"}), ["message_bytes", "window"])
    assert list(found["median"]) == [1.0, 2.0]


def test_percentiles_and_extremes_are_of_all_measured_samples() -> None:
    found = only(summarise(samples({0: list(range(51)), 1: list(range(50, 101))}), ["message_bytes"]))
    assert found["minimum"] == 0 and found["maximum"] == 100
    assert found["p05"] == pytest.approx(np.quantile([*range(51), *range(50, 101)], 0.05))
    assert found["p99"] == pytest.approx(np.quantile([*range(51), *range(50, 101)], 0.99))


def test_no_measured_sample_gives_an_empty_summary_with_its_columns() -> None:
    found = summarise(samples({0: [1.0]}, phase="warmup"), ["message_bytes"])
    assert found.empty and {"message_bytes", "median", "ci_level", "outliers"} <= set(found.columns)


@pytest.mark.parametrize(
    ("n", "low", "high"),
    [(2, 1, 2), (5, 1, 5), (6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (30, 10, 21), (100, 40, 61)],
)
def test_the_interval_is_made_of_the_tabulated_order_statistics(n: int, low: int, high: int) -> None:
    assert (low, high) == median_interval(np.arange(n, 0.0, -1))[:2]


@given(st.integers(2, 80))
def test_the_interval_is_the_narrowest_with_the_level_asked_for_and_says_its_own(n: int) -> None:
    def level(k: int) -> float:
        return 1 - 2 * sum(comb(n, i) for i in range(k)) / 2**n

    low, high, said = median_interval(np.arange(1.0, n + 1))
    k = int(low)
    assert high == n + 1 - k
    assert said == pytest.approx(level(k))
    assert said >= 0.95 or k == 1
    assert level(k + 1) < 0.95


def test_one_launch_has_no_interval() -> None:
    assert np.isnan(median_interval(np.array([1.0]))).all()
    found = only(summarise(samples({0: [1.0, 2.0]}), ["message_bytes"]))
    assert found[["ci_low", "ci_high", "ci_level"]].isna().all()


def test_a_run_without_samples_has_empty_statistics() -> None:
    nothing = samples({0: [1.0]}).head(0)
    assert flag_outliers(nothing).empty
    assert summarise(nothing, ["message_bytes"]).empty
    assert launch_medians(nothing, ["message_bytes"]).empty


def test_the_types_of_the_tables_are_taken() -> None:
    """Tables hold nullable integers and booleans; the result is the same as of plain ones."""
    plain = samples({0: [1.0, 2.0], 1: [3.0]}, outlier=False)
    typed = plain.astype({"launch": "Int64", "message_bytes": "Int64", "outlier": "boolean", "value": "float64"})
    pd.testing.assert_frame_equal(
        summarise(plain, ["message_bytes"]), summarise(typed, ["message_bytes"]), check_dtype=False
    )
    assert not flag_outliers(typed).any()


def test_the_interval_covers_the_median_as_often_as_it_says() -> None:
    draw = np.random.default_rng(1)
    intervals = [median_interval(draw.exponential(size=9)) for _ in range(4000)]
    covered = np.mean([low <= np.log(2) <= high for low, high, _ in intervals])
    assert covered == pytest.approx(intervals[0].level, abs=0.012)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(0, 1 << 32))
@settings(max_examples=30)
def test_the_summary_of_many_points_agrees_with_one_point_at_a_time(launches: list[int], seed: int) -> None:
    draw = np.random.default_rng(seed)
    points = [
        samples({launch: list(draw.lognormal(size=3)) for launch in range(n)}, message_bytes=size)
        for size, n in enumerate(launches)
    ]
    mixed = pd.concat(points, ignore_index=True).sample(frac=1, random_state=seed % 1000)
    found = summarise(mixed, ["message_bytes"]).set_index("message_bytes")
    for size, point in enumerate(points):
        medians = point.groupby("launch")["value"].median().to_numpy()
        row = found.loc[size]
        assert row["median"] == np.median(medians)
        np.testing.assert_array_equal(row[["ci_low", "ci_high", "ci_level"]].astype(float), median_interval(medians))


def test_an_outlier_is_flagged_within_its_own_launch_and_kept() -> None:
    table = samples({0: [1.0, 1.1, 1.2, 1.3, 9.0], 1: [9.0, 9.1, 9.2, 9.3, 9.4]})
    assert list(np.flatnonzero(flag_outliers(table))) == [4]
    found = only(summarise(table, ["message_bytes"]))
    assert (found["outliers"], found["samples"], found["maximum"]) == (1, 10, 9.4)


def test_warm_up_is_neither_flagged_nor_moves_the_fence() -> None:
    table = pd.concat([samples({0: [50.0, 60.0]}, phase="warmup"), samples({0: [1.0, 1.1, 1.2, 1.3, 5.0]})])
    flags = flag_outliers(table.reset_index(drop=True))
    assert list(flags) == [False, False, False, False, False, False, True]


def test_flags_follow_the_index_of_the_samples() -> None:
    table = samples({0: [9.0, 1.0, 1.1, 1.2, 1.3]})
    table.index = pd.Index([10, 3, 7, 1, 2])
    flags = flag_outliers(table)
    assert flags[flags].index.tolist() == [10] and flags.index.equals(table.index)


def test_parameter_columns_are_those_no_other_experiment_need_have() -> None:
    assert parameter_columns(samples({0: [1.0]}, window=64, outlier=False)) == ["message_bytes", "window"]


def test_launch_medians_has_one_row_a_launch() -> None:
    found = launch_medians(samples({0: [1.0, 3.0], 1: [5.0]}), ["message_bytes"])
    assert list(zip(found["launch"], found["value"], strict=True)) == [(0, 2.0), (1, 5.0)]


def test_two_hundred_thousand_samples_give_a_row_for_each_size() -> None:
    draw = np.random.default_rng(0)
    launch, size, repetition = (a.ravel() for a in np.meshgrid(range(30), range(170), range(40), indexing="ij"))
    table = samples({0: [1.0]}).drop(columns=["launch", "message_bytes", "repetition", "value"])
    table = table.loc[[0] * len(size)].reset_index(drop=True)
    table = table.assign(launch=launch, message_bytes=size, repetition=repetition, value=draw.lognormal(size=len(size)))
    table["outlier"] = flag_outliers(table)
    assert len(summarise(table, ["message_bytes"])) == 170
