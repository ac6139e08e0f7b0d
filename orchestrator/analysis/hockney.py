"""Hockney's model of a point-to-point message: a start-up time and a bandwidth.

    t(m) = t0 + m / r_inf                  (1)
    t0 = m_half / r_inf = 1 / pi0          (2)

m is the message in bytes; t0 [s] the start-up time, which is the time of an empty message; r_inf [B/s] the asymptotic
bandwidth; m_half [B] the size at which half of r_inf is reached. By (2) pi0 = 1 / t0 [1/s]: the bandwidth at small m is
m / t(m) -> m pi0, so pi0 is the short messages sent a second, the "bandwidth of short messages" counted in messages.
R. W. Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20(3), 1994.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from orchestrator.analysis import MODEL_COLUMNS, RESIDUAL_COLUMNS
from orchestrator.analysis.statistics import CI_LEVEL, MIN_LAUNCHES, launch_medians, parameter_columns

ABOUT = (
    "A message of m bytes takes t(m) = t₀ + m / r∞. t₀ is the start-up time, r∞ the asymptotic bandwidth, m½ = t₀ r∞ "
    "the size that reaches half of it, and π₀ = 1 / t₀ the short messages sent a second. The fit minimises relative "
    "errors, so that every size counts the same."
)
METRIC = "one_way_latency"
X = "message_bytes"
MIN_SIZES = 3  # two points are on a line whatever they are
RESAMPLES = 1000
_NEGLIGIBLE = 1e-9  # a term this small beside the other is rounding, not a measurement
_UNITS = {"t0": "s", "r_inf": "B/s", "m_half": "B", "pi0": "1/s", "max_relative_residual": "1"}


class NoFit(ValueError):
    """The data do not determine the model; the message is the reason, for models.csv."""


@dataclass(frozen=True)
class Hockney:
    """The model with its two free parameters: t0 in s, r_inf in B/s. The other two follow by (2)."""

    t0: float
    r_inf: float

    @property
    def m_half(self) -> float:
        return self.t0 * self.r_inf

    @property
    def pi0(self) -> float:
        return 1 / self.t0

    def time(self, m: ArrayLike) -> NDArray[np.float64]:
        """Seconds for messages of m bytes, by (1)."""
        return self.t0 + np.asarray(m, dtype=float) / self.r_inf

    def parameters(self) -> dict[str, float]:
        return {"t0": self.t0, "r_inf": self.r_inf, "m_half": self.m_half, "pi0": self.pi0}


def predict(parameters: Mapping[str, float], x: ArrayLike) -> NDArray[np.float64]:
    """Seconds for messages of x bytes, from the parameters as models.csv has them."""
    return Hockney(parameters["t0"], parameters["r_inf"]).time(x)


def fit_curve(m: NDArray[np.float64], t: NDArray[np.float64]) -> Hockney:
    """The positive t0 and r_inf that minimise the squared relative errors of (1), or NoFit.

    Relative, because sizes span decades: unweighted, the largest message alone would decide, t0 included.
    """
    if len(np.unique(m)) < MIN_SIZES:
        raise NoFit(f"{len(np.unique(m))} distinct message sizes, at least {MIN_SIZES} are needed")
    if not (np.isfinite(t).all() and (t > 0).all()):
        raise NoFit("a time is missing or not positive")
    t0, per_byte = map(float, _least_squares(m, t))
    if per_byte * m.max() <= _NEGLIGIBLE * t0:
        raise NoFit("the time does not grow with the message size, so r_inf has no bound")
    if t0 <= _NEGLIGIBLE * t.min():
        raise NoFit("the time is proportional to the message size, with no start-up time left over")
    return Hockney(t0, 1 / per_byte)


def _least_squares(m: NDArray[np.float64], t: NDArray[np.float64]) -> NDArray[np.float64]:
    """(t0, 1 / r_inf) of each curve; the last axis of t goes along m.

    Free of bounds: the problem is convex, so where a bound of zero would be active the free value is not positive, and
    the caller declines.
    """
    design = np.stack((np.ones_like(t), np.broadcast_to(m / m.max(), t.shape)), axis=-1) / t[..., None]
    solved: NDArray[np.float64] = np.linalg.pinv(design).sum(axis=-1) / [1, m.max()]
    return solved


def fit(samples: pd.DataFrame, summary: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of models.csv and residuals.csv for each cell that has METRIC over X.

    A cell without a fit has its rows too, with empty values and the reason as `method`. `n` counts message sizes.
    """
    curves = launch_medians(samples[samples["metric"] == METRIC], parameter_columns(samples))
    models: list[dict[str, object]] = []
    residuals: list[dict[str, object]] = []
    for (run, cell), rows in summary[summary["metric"] == METRIC].groupby(["run", "cell"], sort=False):
        rows = rows.sort_values(X)
        m, t = rows[X].to_numpy(dtype=float), rows["median"].to_numpy(dtype=float)
        of_cell = {"run": run, "cell": cell, "model": "hockney"}
        of_model = of_cell | {"label": rows["label"].iloc[0], "benchmark": rows["benchmark"].iloc[0]}
        try:
            model = fit_curve(m, t)
        except NoFit as reason:
            blank = of_model | {"n": len(m), "method": f"no fit: {reason}"}
            models += [blank | {"parameter": name, "unit": unit} for name, unit in _UNITS.items()]
            continue
        predicted = model.time(m)
        relative = (t - predicted) / predicted
        per_launch = curves[(curves["run"] == run) & (curves["cell"] == cell)]
        intervals, method = _intervals(model, m, t, per_launch.pivot(index="launch", columns=X, values="value"))
        for name, value in model.parameters().items():
            low, high = intervals[name]
            interval = {"ci_low": low, "ci_high": high, "ci_level": CI_LEVEL, "n": len(m), "method": method}
            models.append(of_model | {"parameter": name, "value": value, "unit": _UNITS[name]} | interval)
        worst = {"parameter": "max_relative_residual", "value": np.abs(relative).max(), "unit": "1"}
        models.append(
            of_model | worst | {"n": len(m), "method": "maximum over sizes of |observed - predicted| / predicted"}
        )
        residuals += [
            of_cell
            | {"x": X, "x_value": size, "observed": seen, "predicted": said, "relative_residual": off, "unit": "s"}
            for size, seen, said, off in zip(m, t, predicted, relative, strict=True)
        ]
    return pd.DataFrame(models, columns=list(MODEL_COLUMNS)), pd.DataFrame(residuals, columns=list(RESIDUAL_COLUMNS))


_Intervals = dict[str, tuple[float, ...]]  # low, high


def _intervals(
    model: Hockney, m: NDArray[np.float64], t: NDArray[np.float64], launches: pd.DataFrame
) -> tuple[_Intervals, str]:
    """Intervals of the four parameters and the method in words; `launches` is launch x size."""
    complete = launches.dropna()
    if len(complete) >= MIN_LAUNCHES:
        intervals = _bootstrap(m, complete[m].to_numpy(dtype=float))
        return intervals, f"percentile bootstrap over {len(complete)} launches, {RESAMPLES} resamples"
    freedom = len(m) - 2
    method = f"covariance of the fit, t interval in logarithms, {freedom} degrees of freedom"
    return _from_covariance(model, m, t, freedom), method


def _bootstrap(m: NDArray[np.float64], medians: NDArray[np.float64]) -> _Intervals:
    """Percentile intervals from refitting to resampled launches; NaN when resamples exist that determine no model."""
    draw = np.random.default_rng(0)  # a fixed seed: the same samples must give the same tables
    picks = draw.integers(len(medians), size=(RESAMPLES, len(medians)))
    t0, per_byte = _least_squares(m, np.median(medians[picks], axis=1)).T
    if min(t0.min(), per_byte.min()) <= 0:
        return dict.fromkeys(("t0", "r_inf", "m_half", "pi0"), (np.nan, np.nan))
    ends = [(1 - CI_LEVEL) / 2, (1 + CI_LEVEL) / 2]
    resampled = {"t0": t0, "r_inf": 1 / per_byte, "m_half": t0 / per_byte, "pi0": 1 / t0}
    return {name: tuple(map(float, np.quantile(values, ends))) for name, values in resampled.items()}


def _from_covariance(model: Hockney, m: NDArray[np.float64], t: NDArray[np.float64], freedom: int) -> _Intervals:
    """Student-t intervals of log t0 and log r_inf (so that they stay positive); by (2) the others are sums of these.

    With J the relative errors' derivatives by (log t0, log r_inf) and s^2 their variance, cov = s^2 (J^T J)^-1.
    """
    jacobian = np.column_stack((np.full_like(t, model.t0), -m / model.r_inf)) / t[:, None]
    variance = np.sum(((t - model.time(m)) / t) ** 2) / freedom
    covariance = variance * np.linalg.inv(jacobian.T @ jacobian)
    reach = stats.t.ppf((1 + CI_LEVEL) / 2, freedom)
    direction = {"t0": (1, 0), "r_inf": (0, 1), "m_half": (1, 1), "pi0": (-1, 0)}
    intervals: _Intervals = {}
    for name, value in model.parameters().items():
        w = np.array(direction[name])
        factor = float(np.exp(min(reach * np.sqrt(w @ covariance @ w), 700)))
        intervals[name] = (value / factor, value * factor)
    return intervals
