"""Speed-up over one rank: how many times faster a cell is than the same problem on one rank.

S(p) = T(1) / T(p), with T the median `time` of the cell. The base is this program on one rank, whose own time stands in
the same table (Hoefler & Belli, "Scientific benchmarking of parallel computing systems", SC 2015, rule 1: say what the
base of a speed-up is). The interval is a percentile bootstrap over the launches of both cells.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from orchestrator.analysis.statistics import CI_LEVEL, launch_medians, parameter_columns

TIME = "time"
RESAMPLES = 1000
SEED = 1  # the same samples give the same interval


def derive(samples: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """A row of metric `speedup` (unit 1) for each point whose problem was also run on one rank."""
    parameters = parameter_columns(samples)
    medians = launch_medians(samples[samples["metric"] == TIME], parameters)
    times = summary[summary["metric"] == TIME]
    rows = []
    for _, same in times.groupby(["label", *parameters], dropna=False, sort=False):
        base = same[(same["nodes"] * same["ranks_per_node"]) == 1]
        for _, point in same.iterrows() if len(base) == 1 else ():
            of = [_launches(medians, one, parameters) for one in (base.iloc[0], point)]
            rows.append(_row(point, base.iloc[0], *of))
    return pd.DataFrame(rows, columns=summary.columns).astype(summary.dtypes) if rows else summary.iloc[:0]


def _launches(medians: pd.DataFrame, point: pd.Series, parameters: list[str]) -> np.ndarray:
    """The launch medians of a point: of its cell, at its value of what is looped over."""
    here = medians["cell"] == point["cell"]
    for name in parameters:
        here &= medians[name].isna() if pd.isna(point[name]) else (medians[name] == point[name]).fillna(False)
    values: np.ndarray = medians.loc[here, "value"].to_numpy(float)
    return values


def _row(point: pd.Series, base: pd.Series, base_times: np.ndarray, times: np.ndarray) -> pd.Series:
    statistics = ["ci_low", "ci_high", "ci_level", "p05", "p25", "p75", "p95", "p99", "minimum", "maximum", "mean"]
    row = point.copy()
    row[statistics] = np.nan
    row[["metric", "unit", "better", "outliers"]] = "speedup", "1", "higher", 0
    row["median"] = base["median"] / point["median"]
    if point["cell"] != base["cell"] and min(len(base_times), len(times)) > 1:
        random = np.random.default_rng(SEED)
        drawn = [np.median(random.choice(values, (RESAMPLES, len(values))), axis=1) for values in (base_times, times)]
        tail = (1 - CI_LEVEL) / 2
        row[["ci_low", "ci_high"]] = np.quantile(drawn[0] / drawn[1], [tail, 1 - tail])
        row["ci_level"] = CI_LEVEL
    return row
