"""What overlap brings, made from the times of the `overlap` family: parts of a shift, ratios, and gains.

Of a circular shift (t_pure, t_comp and t_total as observed; x of W iterations of work are overlapped)

    overlappable      T_c = t_total(0) - min over x of t_total(x)          paper, section 3.2, Table 1
    non_overlappable  T_p = t_pure - T_c                                   paper, section 3.2, Table 2

and, for x > 0, with t_c = t_comp x / W, the overlapped work, and t_ovrl = t_total - t_comp + t_c, the exchange with it,

    overlap_imb       (t_pure + t_c - t_ovrl) / max(t_pure, t_c), cut to [0, 1]      IMB-NBC, IMB_output.c
    overlap_osu       1 - (t_ovrl - t_c) / t_pure, at least 0                        OSU, osu_coll.c

IMB divides by the longer of the two, OSU by the exchange alone. OSU takes the time of MPI_Test out of the computation;
t_comp holds none, so polling counts as communication in both. Of the Jacobi relaxation (paper, section 4.3, Fig. 6)

    gain              t_blocking - t_overlapped
    gain_predicted    min(T_B, T_c), T_c of an edge row by nLogP from the bsend shift of the same run on as many ranks

Paper: J. Kim, J. Rho, H. Song, "Overlapping effects of circular shift communication and computation" (2002).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from orchestrator.analysis import nlogp
from orchestrator.analysis.statistics import launch_medians, parameter_columns, summarise

BYTES_OF_A_POINT = 8  # MPI_DOUBLE


def derive(samples: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """Rows of summary.csv for the derived metrics of every cell here; their statistics are of the launches' values.

    gain_predicted needs the samples of both benchmarks; without those of the shift it has no rows.
    """
    measured = samples[(samples["phase"] == "measure") & (samples["rank"].astype(str) == "all")]
    found = [frame for frame in _derived(measured) if not frame.empty]
    if not found:
        return summary.iloc[:0]
    derived = pd.concat(found, ignore_index=True).assign(rank="all", phase="measure", outlier=False)
    return summarise(derived, parameter_columns(samples)).reindex(columns=summary.columns)


def _derived(measured: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Derived values as rows like samples."""
    cells = measured.drop_duplicates(["run", "cell"])
    shift = measured[measured["benchmark"] == "overlap.circular_shift"]
    jacobi = measured[measured["benchmark"] == "overlap.jacobi"]
    if not shift.empty:
        yield from _parts(shift, cells)
        yield from _ratios(shift, cells)
    if not jacobi.empty:
        yield _gain(jacobi)
        yield _predicted(jacobi, nlogp.estimates(shift))


def _parts(shift: pd.DataFrame, cells: pd.DataFrame) -> Iterator[pd.DataFrame]:
    launches = nlogp.overlap_of_launches(shift)
    of_cell = cells.drop(columns=["launch", "metric", "value", "unit", "better", nlogp.OVERLAPPED])
    for metric, better in (("overlappable", "higher"), ("non_overlappable", "lower")):
        values = launches[["run", "cell", "launch", metric]].rename(columns={metric: "value"})
        yield values.merge(of_cell, on=["run", "cell"]).assign(metric=metric, unit="s", better=better)


def _ratios(shift: pd.DataFrame, cells: pd.DataFrame) -> Iterator[pd.DataFrame]:
    medians = launch_medians(shift, parameter_columns(shift))
    keys = ["run", "cell", "launch", nlogp.OVERLAPPED]
    times = medians.pivot(index=keys, columns="metric", values="value").reset_index()
    times = times[times[nlogp.OVERLAPPED] > 0]  # without work there is nothing to overlap with
    of_cell = cells.drop(columns=["launch", "metric", "value", "unit", "better", nlogp.OVERLAPPED])
    times = times.merge(of_cell, on=["run", "cell"])
    part = (times[nlogp.OVERLAPPED] / times["work_iterations"]).astype(float)
    computed = times["t_comp"] * part
    overlapped = times["t_total"] - (times["t_comp"] - computed)
    imb: pd.Series[float] = (times["t_pure"] + computed - overlapped) / np.maximum(times["t_pure"], computed)
    osu = 1 - (overlapped - computed) / times["t_pure"]
    for metric, values in (("overlap_imb", imb.clip(0, 1)), ("overlap_osu", osu.clip(lower=0))):
        yield times.assign(metric=metric, unit="1", better="higher", value=values)


def _gain(jacobi: pd.DataFrame) -> pd.DataFrame:
    """Paired by repetition, so that what disturbs both versions drops out."""
    keys = ["run", "cell", "launch", "order", "repetition"]
    blocking, overlapped = (jacobi[jacobi["metric"] == name] for name in ("t_blocking", "t_overlapped"))
    both = overlapped.merge(blocking[[*keys, "value"]], on=keys, suffixes=("", "_blocking"))
    return both.assign(metric="gain", better="higher", value=both["value_blocking"] - both["value"])


def _predicted(jacobi: pd.DataFrame, models: list[tuple[pd.DataFrame, nlogp.Estimate | nlogp.NoFit]]) -> pd.DataFrame:
    of_ranks: dict[int, nlogp.NLogP] = {}
    for curve, found in models:
        first = curve.iloc[0]
        if isinstance(found, nlogp.Estimate) and first["exchange"] == "bsend" and not first["poll"]:
            of_ranks[int(first["nodes"] * first["ranks_per_node"])] = found.model
    inner = jacobi[jacobi["metric"] == "t_b"]
    inner = inner[(inner["nodes"] * inner["ranks_per_node"]).isin(list(of_ranks))]
    ranks, orders = (inner["nodes"] * inner["ranks_per_node"]).to_list(), inner["order"].to_list()
    edges = zip(ranks, orders, strict=True)
    limit = [float(of_ranks[n].overlappable(BYTES_OF_A_POINT * order)) for n, order in edges]
    return inner.assign(metric="gain_predicted", better="higher", value=np.minimum(inner["value"], limit))
