"""From samples to summaries, assuming no distribution.

A launch is itself a source of variance, so the unit of analysis is the median of a launch: n is the number of launches,
not of repetitions. The rules follow Hunold & Carpen-Amarie, "Reproducible MPI benchmarking is still not as easy as you
think" (IEEE TPDS 2016), and Hoefler & Belli, "Scientific benchmarking of parallel computing systems" (SC 2015).
Values keep the unit of their metric. Warm-up never enters a statistic; outliers are flagged and never dropped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

CI_LEVEL = 0.95
MIN_LAUNCHES = 6  # below it not even [minimum, maximum] covers the median with CI_LEVEL: 1 - 2 * 0.5**5 = 0.9375
FENCE = 1.5  # Tukey's fence, in interquartile ranges beyond the quartiles

_PERCENTILES = {"p05": 0.05, "p25": 0.25, "p75": 0.75, "p95": 0.95, "p99": 0.99}
_OF_CELL = ["run", "cell", "label", "benchmark", "nodes", "ranks_per_node"]
_OF_SAMPLE = [
    *_OF_CELL, "launch", "rank", "phase", "repetition", "metric", "value", "unit", "better", "operations", "outlier",
]  # fmt: skip
_STATISTICS = [
    *("launches", "samples", "median", "ci_low", "ci_high", "ci_level"),
    *(*_PERCENTILES, "minimum", "maximum", "mean", "outliers"),
]


class Interval(NamedTuple):
    """A confidence interval and the level it really has; all NaN when one value is all there is."""

    low: float
    high: float
    level: float


def parameter_columns(samples: pd.DataFrame) -> list[str]:
    """The columns of samples.csv that hold parameters: all but those that every experiment has."""
    return [str(column) for column in samples.columns if column not in _OF_SAMPLE]


def median_interval(values: np.ndarray) -> Interval:
    """Confidence interval of the median of the population that `values` are drawn from.

    The k-th smallest and k-th largest of n values enclose the median with probability 1 - 2 P(B < k), B ~ binomial(n,
    1/2) (David & Nagaraja, Order Statistics, section 7.1); k is the largest that reaches CI_LEVEL, at least 1.
    """
    k, level = _rank(len(values))
    if k == 0:
        return Interval(np.nan, np.nan, np.nan)
    ordered = np.sort(values)
    return Interval(float(ordered[k - 1]), float(ordered[-k]), level)


def _rank(n: int) -> tuple[int, float]:
    """The k of `median_interval` for n values and its level; k = 0 when there is no interval."""
    if n < 2:
        return 0, float("nan")
    k = int(stats.binom.ppf((1 - CI_LEVEL) / 2, n, 0.5))
    while k > 1 and 2 * stats.binom.cdf(k - 1, n, 0.5) > 1 - CI_LEVEL:
        k -= 1
    k = max(k, 1)
    return k, 1 - 2 * float(stats.binom.cdf(k - 1, n, 0.5))


def flag_outliers(samples: pd.DataFrame) -> pd.Series[bool]:
    """True for a measured sample beyond Tukey's fence among its own: one launch, point, metric and rank."""
    flags = pd.Series(False, index=samples.index)
    measured = samples[samples["phase"] == "measure"]
    if measured.empty:
        return flags
    keys = ["run", "cell", "launch", *parameter_columns(samples), "metric", "rank"]
    groups = _number(measured, keys)
    quartiles = measured["value"].groupby(groups).quantile(np.array([0.25, 0.75])).unstack()
    low, high = (quartiles[q].reindex(groups).to_numpy() for q in (0.25, 0.75))
    reach = FENCE * (high - low)
    value = measured["value"].to_numpy()
    flags.loc[measured.index] = (value < low - reach) | (value > high + reach)
    return flags


def launch_medians(samples: pd.DataFrame, parameters: list[str]) -> pd.DataFrame:
    """One row per launch, point and metric: the median of its measured repetitions, of all ranks together."""
    measured = _measured(samples)
    keys = ["run", "cell", *parameters, "metric", "launch"]
    return measured.groupby(keys, sort=False, dropna=False)["value"].median().reset_index()


def summarise(samples: pd.DataFrame, parameters: list[str]) -> pd.DataFrame:
    """Rows of summary.csv, one per cell, values of `parameters` and metric, in the order of the samples.

    `median` and its interval are of the launch medians; percentiles, extremes and mean are of all measured samples.
    """
    measured = _measured(samples)
    of_point = [*_OF_CELL, *parameters, "metric", "unit", "better"]
    if measured.empty:
        return pd.DataFrame(columns=[*of_point, *_STATISTICS])
    group = _number(measured, ["run", "cell", *parameters, "metric"])
    values = measured["value"].groupby(group)
    medians = measured["value"].groupby([group, measured["launch"].to_numpy()]).median()
    outlier = measured["outlier"] if "outlier" in measured else flag_outliers(measured)

    summary = measured[of_point].groupby(group).head(1).reset_index(drop=True)  # groups count up in order of appearance
    summary["launches"] = medians.groupby(level=0).size()
    summary["samples"] = values.size()
    summary["median"] = medians.groupby(level=0).median()
    summary[["ci_low", "ci_high", "ci_level"]] = _median_intervals(medians)
    summary[[*_PERCENTILES]] = values.quantile(np.array([*_PERCENTILES.values()])).unstack().to_numpy()
    summary["minimum"], summary["maximum"], summary["mean"] = values.min(), values.max(), values.mean()
    summary["outliers"] = outlier.astype(bool).groupby(group).sum()
    return summary[[*of_point, *_STATISTICS]]


def _measured(samples: pd.DataFrame) -> pd.DataFrame:
    """What counts: past the warm-up, of all ranks together, with a value."""
    counts = (samples["phase"] == "measure") & (samples["rank"].astype(str) == "all") & samples["value"].notna()
    return samples[counts]


def _number(rows: pd.DataFrame, keys: list[str]) -> np.ndarray:
    """Each row's group, counted from 0 in order of appearance; a missing parameter is a value of its own."""
    return rows.groupby(keys, sort=False, dropna=False).ngroup().to_numpy()


def _median_intervals(medians: pd.Series[float]) -> np.ndarray:
    """`median_interval` of each group (first index level) at once: a row of low, high, level for each."""
    group = medians.index.get_level_values(0).to_numpy()
    ordered = medians.to_numpy()[np.lexsort((medians.to_numpy(), group))]
    n = np.bincount(group)
    start = np.concatenate(([0], np.cumsum(n)[:-1]))
    rank = {int(size): _rank(int(size)) for size in np.unique(n)}
    k = np.array([rank[int(size)][0] for size in n])
    level = np.array([rank[int(size)][1] for size in n])
    first, last = start + np.maximum(k, 1) - 1, start + n - np.maximum(k, 1)
    return np.column_stack((np.where(k, ordered[first], np.nan), np.where(k, ordered[last], np.nan), level))
