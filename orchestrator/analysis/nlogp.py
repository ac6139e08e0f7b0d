"""nLogP: LogP for a circular shift, with parameters that depend on n, the processes that take part.

o(n) [s] is the processor's overhead of a send or a receive, g(n) [s] the least gap between fragments, L(n) [s] the
latency. A message of k bytes travels as f = ceil(k / w) fragments of w bytes. With T_p the time that the processor
is busy and T_c the time that can be overlapped (section 4.3, Fig. 4):

    g > 2o:     T = o + (f - 1) g + L + o      T_p = 2 o f      T_c = (f - 1) (g - 2o) + L
    otherwise:  T = o + (f - 1) 2o + L + o     T_p = 2 o f      T_c = L

J. Kim, J. Rho, H. Song, "Overlapping effects of circular shift communication and computation" (2002), section 4. What
is measured gives T_c = t_total without overlap - min t_total, and T_p = t_pure - T_c (section 3.2, Tables 1 and 2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from orchestrator.analysis import MODEL_COLUMNS, RESIDUAL_COLUMNS
from orchestrator.analysis.statistics import CI_LEVEL

ABOUT = (
    "A circular shift among n processes takes T = o + (f − 1) max(g, 2o) + L + o for a message of f fragments of w "
    "bytes: o is the processor's overhead, g the least gap between fragments, L the latency. The processor is busy for "
    "2 o f of it; the rest can be overlapped. Fitted to messages longer than a fragment, up to where overlap ends."
)
FRAGMENT_BYTES = 1448  # w: payload of an Ethernet frame under TCP and MPI headers, section 4.3, footnote 3
MIN_FRAGMENT_COUNTS = 3  # two points are on a line whatever they are
COLLAPSE = 0.5  # T_c below this part of the largest before: the message waits for its receiver (section 3.2, 128 KiB)
X = "message_bytes"
OVERLAPPED = "overlapped_iterations"
_UNITS = {"o": "s", "g": "s", "L": "s", "w": "B", "max_relative_residual": "1"}
_SAME_CURVE = ["run", "benchmark", "label", "nodes", "ranks_per_node", "exchange", "poll"]

Floats = NDArray[np.float64]


class NoFit(ValueError):
    """The data do not determine the model; the message is the reason, for models.csv."""


class Value(NamedTuple):
    """An estimate in s with its interval of CI_LEVEL."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class NLogP:
    """The model for one n. o, g and L in s; g is NaN when it hides behind 2o. w in bytes."""

    o: float
    g: float
    L: float
    w: int = FRAGMENT_BYTES

    def fragments(self, k: ArrayLike) -> Floats:
        """f of messages of k bytes; an empty message is a fragment too."""
        return _fragments(k, self.w)

    def busy(self, k: ArrayLike) -> Floats:
        """T_p in s: the processor's own time, which cannot be overlapped."""
        return 2 * self.o * self.fragments(k)

    def overlappable(self, k: ArrayLike) -> Floats:
        """T_c in s."""
        idle = 0.0 if math.isnan(self.g) else max(self.g - 2 * self.o, 0.0)
        return (self.fragments(k) - 1) * idle + self.L

    def time(self, k: ArrayLike) -> Floats:
        """T in s, of a shift without any work."""
        return self.busy(k) + self.overlappable(k)


@dataclass(frozen=True)
class Estimate:
    """The parameters of one n with their intervals, and the messages they were estimated from, in bytes."""

    o: Value
    g: Value  # NaN when g <= 2o, where nothing depends on it
    L: Value
    w: int
    fitted: Floats  # bytes

    @property
    def model(self) -> NLogP:
        return NLogP(self.o.value, self.g.value, self.L.value, self.w)


def estimate(
    n: ArrayLike, message_bytes: ArrayLike, t_p: ArrayLike, t_c: ArrayLike, w: int = FRAGMENT_BYTES
) -> dict[int, Estimate | NoFit]:
    """The parameters for each n, from curves given point by point; times in s. A NoFit says why there are none."""
    ns, k, p, c = (np.asarray(values, dtype=float) for values in (n, message_bytes, t_p, t_c))
    found: dict[int, Estimate | NoFit] = {}
    for each in np.unique(ns):
        order = np.flatnonzero(ns == each)[np.argsort(k[ns == each], kind="stable")]
        try:
            found[int(each)] = estimate_curve(k[order], p[order], c[order], w)
        except NoFit as reason:
            found[int(each)] = reason
    return found


def estimate_curve(k: Floats, t_p: Floats, t_c: Floats, w: int = FRAGMENT_BYTES) -> Estimate:
    """Least squares of T_p = 2 o f and T_c = (f - 1) s + L with s = g - 2o, over increasing k; NoFit with the reason.

    Only messages longer than a fragment count: below w the model knows no size, while measured times do depend on it.
    Absolute errors, for a gap is seen best where there are many. An s below 0 is the second case: s = 0, g unknown.
    """
    if not (np.isfinite(t_p).all() and np.isfinite(t_c).all()):
        raise NoFit("a time is missing")
    counts = (k > w) & (np.arange(len(k)) < _before_collapse(t_c))
    f = _fragments(k, w)[counts]
    if len(np.unique(f)) < MIN_FRAGMENT_COUNTS:
        raise NoFit(
            f"{len(np.unique(f))} distinct numbers of fragments above one, at least {MIN_FRAGMENT_COUNTS} are needed "
            f"of messages longer than {w} B that can be overlapped"
        )
    p, c = t_p[counts], t_c[counts]
    o, (s, latency), covariance = _least_squares(f, p, c, with_gap=True)
    if s <= 0:
        o, (s, latency), covariance = _least_squares(f, p, c, with_gap=False)
    if o <= 0:
        raise NoFit("no time is left for the processor's overhead")
    gap = Value(np.nan, np.nan, np.nan) if s <= 0 else _value(s + 2 * o, (2, 1, 0), covariance, len(f))
    return Estimate(
        o=_value(o, (1, 0, 0), covariance, len(f)),
        g=gap,
        L=_value(latency, (0, 0, 1), covariance, len(f)),
        w=w,
        fitted=k[counts],
    )


def _fragments(k: ArrayLike, w: int) -> Floats:
    return np.maximum(np.ceil(np.asarray(k, dtype=float) / w), 1.0)


def _before_collapse(t_c: Floats) -> int:
    """How many sizes there are before T_c collapses for good, as the payload leaves only when it is received."""
    end = len(t_c)
    while end > 1 and t_c[end - 1 :].max() < COLLAPSE * t_c[: end - 1].max():
        end -= 1
    return end


def _least_squares(f: Floats, p: Floats, c: Floats, with_gap: bool) -> tuple[float, tuple[float, float], Floats]:
    """o, (s, L), and the covariance of (o, s, L).

    T_p and T_c of a message come from the same times, so their errors are correlated: the covariance takes that from
    the residuals of both fits, as for seemingly unrelated regressions.
    """
    busy = 2 * f[:, None]
    idle = np.column_stack((f - 1, np.ones_like(f)))[:, slice(None) if with_gap else slice(1, None)]
    a, b = np.linalg.pinv(busy), np.linalg.pinv(idle)
    o, coefficients = float((a @ p)[0]), b @ c
    misses = np.stack((p - busy[:, 0] * o, c - idle @ coefficients))
    spread = misses @ misses.T / (len(f) - idle.shape[1])
    covariance = np.zeros((3, 3))
    at = slice(1, 3) if with_gap else slice(2, 3)
    covariance[0, 0] = spread[0, 0] * (a @ a.T)[0, 0]
    covariance[at, at] = spread[1, 1] * (b @ b.T)
    covariance[0, at] = covariance[at, 0] = spread[0, 1] * (a @ b.T)[0]
    s, latency = (float(coefficients[0]), float(coefficients[1])) if with_gap else (0.0, float(coefficients[0]))
    return o, (s, latency), covariance


def _value(value: float, direction: tuple[int, int, int], covariance: Floats, points: int) -> Value:
    """The Student-t interval of a sum of (o, s, L) with these weights; two coefficients are fitted at most."""
    weights = np.array(direction, dtype=float)
    reach = float(stats.t.ppf((1 + CI_LEVEL) / 2, points - 2) * np.sqrt(max(weights @ covariance @ weights, 0.0)))
    return Value(value, value - reach, value + reach)


def overlap_of_launches(samples: pd.DataFrame) -> pd.DataFrame:
    """A row per launch of a circular shift: `overlappable` (T_c) and `non_overlappable` (T_p) in s.

    Of the least times over the repetitions, as in Fig. 2: what disturbs a repetition only ever adds time, and a
    difference of times has the disturbances of both. A cell that was not run without overlap has no rows, since the
    gain by overlap is against that.
    """
    measured = samples[(samples["phase"] == "measure") & (samples["rank"].astype(str) == "all")]
    of_launch = ["run", "cell", "launch"]
    total = measured[measured["metric"] == "t_total"]
    alone = total[total[OVERLAPPED] == 0].groupby(of_launch, sort=False)["value"].min()
    least = total.groupby(of_launch, sort=False)["value"].min()
    pure = measured[measured["metric"] == "t_pure"].groupby(of_launch, sort=False)["value"].min()
    overlappable = alone - least
    found = pd.DataFrame({"overlappable": overlappable, "non_overlappable": pure - overlappable})
    return found.dropna().reset_index()


def estimates(samples: pd.DataFrame, w: int = FRAGMENT_BYTES) -> list[tuple[pd.DataFrame, Estimate | NoFit]]:
    """The model of each curve over message sizes in the samples, with the curve: a row per cell, smallest first."""
    launches = overlap_of_launches(samples)
    if launches.empty:
        return []
    times = launches.groupby(["run", "cell"], sort=False)[["overlappable", "non_overlappable"]].median().reset_index()
    cells = samples.drop_duplicates(["run", "cell"])[[*dict.fromkeys([*_SAME_CURVE, "cell", X])]]
    found: list[tuple[pd.DataFrame, Estimate | NoFit]] = []
    for _, curve in times.merge(cells, on=["run", "cell"]).groupby(_SAME_CURVE, sort=False):
        curve = curve.sort_values(X)
        ranks = curve["nodes"] * curve["ranks_per_node"]
        by_n = estimate(ranks, curve[X], curve["non_overlappable"], curve["overlappable"], w)
        found.append((curve, by_n[int(ranks.iloc[0])]))
    return found


def predict(parameters: Mapping[str, float], x: ArrayLike) -> Floats:
    """Seconds of a circular shift of x bytes, from the parameters as models.csv has them."""
    model = NLogP(parameters["o"], parameters["g"], parameters["L"], int(parameters.get("w", FRAGMENT_BYTES)))
    return model.time(x)


def fit(samples: pd.DataFrame, summary: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of models.csv and residuals.csv for each curve over message sizes; they stand under its first cell.

    Residuals are of T at all sizes up to where overlap ends, those within one fragment included.
    """
    del summary  # T_p and T_c are made from each launch, before any median over launches
    models: list[dict[str, object]] = []
    residuals: list[dict[str, object]] = []
    for curve, found in estimates(samples):
        first = curve.iloc[0]
        of_cell = {"run": first["run"], "cell": first["cell"], "model": "nlogp"}
        of_model = of_cell | {"label": first["label"], "benchmark": first["benchmark"]}
        n = int(first["nodes"] * first["ranks_per_node"])
        if isinstance(found, NoFit):
            blank = of_model | {"n": len(curve), "method": f"no fit for {n} ranks: {found}"}
            models += [blank | {"parameter": name, "unit": unit} for name, unit in _UNITS.items()]
            continue
        sizes = f"{found.fitted[0]:.0f} to {found.fitted[-1]:.0f} B"
        method = f"least squares for {n} ranks over messages of {sizes}, t interval"
        common = of_model | {"n": len(found.fitted), "method": method}
        hidden = {"method": f"{method}; g is at most 2o, and hidden"} if math.isnan(found.g.value) else {}
        for name, estimated in (("o", found.o), ("g", found.g), ("L", found.L)):
            interval = {"value": estimated.value, "ci_low": estimated.low, "ci_high": estimated.high}
            models.append(
                common
                | interval
                | {"parameter": name, "unit": "s", "ci_level": CI_LEVEL}
                | (hidden if name == "g" else {})
            )
        models.append(common | {"parameter": "w", "value": found.w, "unit": "B", "method": "given"})
        shown = curve[curve[X] <= found.fitted[-1]]
        observed = (shown["overlappable"] + shown["non_overlappable"]).to_numpy(dtype=float)
        predicted = found.model.time(shown[X])
        relative = (observed - predicted) / predicted
        worst = "maximum over sizes of |observed - predicted| / predicted"
        models.append(
            common
            | {"parameter": "max_relative_residual", "value": np.abs(relative).max(), "unit": "1", "method": worst}
        )
        residuals += [
            of_cell
            | {"x": X, "x_value": size, "observed": seen, "predicted": said, "relative_residual": off, "unit": "s"}
            for size, seen, said, off in zip(shown[X], observed, predicted, relative, strict=True)
        ]
    return pd.DataFrame(models, columns=list(MODEL_COLUMNS)), pd.DataFrame(residuals, columns=list(RESIDUAL_COLUMNS))
