"""Speed-ups from times of known ratio."""

from __future__ import annotations

import pandas as pd
import pytest

from orchestrator.analysis import speedup
from orchestrator.analysis.statistics import summarise

TIMES = {1: 8.0, 2: 4.4, 4: 2.5}


def _samples(times: dict[int, float], launches: int = 6, size: int = 64) -> pd.DataFrame:
    """Times by number of nodes, a little different in each launch."""
    rows = [
        {
            "run": "r", "cell": f"{size}-{nodes}", "label": "l", "benchmark": "b", "launch": launch, "nodes": nodes,
            "ranks_per_node": 1, "size": size, "rank": "all", "phase": "measure", "repetition": 0, "metric": "time",
            "value": time * (1 + 0.01 * (launch - (launches - 1) / 2)), "unit": "s", "better": "lower", "operations": 1,
            "outlier": False,
        }
        for nodes, time in times.items()
        for launch in range(launches)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _derived(samples: pd.DataFrame) -> pd.DataFrame:
    return speedup.derive(samples, summarise(samples, ["size"])).set_index("nodes")


def test_the_speedup_is_the_ratio_of_median_times_and_one_on_one_rank() -> None:
    rows = _derived(_samples(TIMES))
    assert rows.loc[1, "median"] == 1
    assert rows.loc[2, "median"] == pytest.approx(8.0 / 4.4)
    assert rows.loc[4, "median"] == pytest.approx(3.2)
    assert set(rows["metric"]) == {"speedup"}
    assert set(rows["better"]) == {"higher"}


def test_the_interval_encloses_the_speedup_and_says_its_level() -> None:
    row = _derived(_samples(TIMES)).loc[4]
    assert row["ci_low"] < row["median"] < row["ci_high"]
    assert row["ci_level"] == 0.95


def test_the_base_is_the_same_problem() -> None:
    rows = _derived(pd.concat([_samples(TIMES), _samples({1: 80.0, 2: 80.0}, size=128)])).reset_index()
    assert rows[rows["size"] == 128]["median"].tolist() == [1, 1]


def test_without_a_run_on_one_rank_there_is_no_speedup() -> None:
    assert _derived(_samples({2: 4.4, 4: 2.5})).empty


def test_one_launch_gives_a_speedup_without_an_interval() -> None:
    row = _derived(_samples(TIMES, launches=1)).loc[2]
    assert row["median"] == pytest.approx(8.0 / 4.4)
    assert pd.isna(row["ci_low"])


def test_values_looped_over_in_a_cell_do_not_mix() -> None:
    """The interval of one size holds nothing of another, although they share their launches."""
    both = pd.concat([_samples(TIMES), _samples({n: 100 * time for n, time in TIMES.items()}, size=128)])
    both["cell"] = [f"cell-{nodes}" for nodes in both["nodes"]]
    rows = _derived(both).reset_index()
    assert rows["ci_high"].max() < 2 * TIMES[1] / TIMES[4]
