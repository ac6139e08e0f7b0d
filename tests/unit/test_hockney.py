"""Hockney's model: it finds what made the data, keeps its equations, and declines where the data say nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.analysis import MODEL_COLUMNS, RESIDUAL_COLUMNS, run_models
from orchestrator.analysis.hockney import Hockney, NoFit, fit_curve, predict
from orchestrator.analysis.statistics import summarise

SIZES = np.array([0, *(2.0**power for power in range(23))])

t0s = st.floats(1e-7, 1e-1)
bandwidths = st.floats(1e5, 1e11)


def measured(times: np.ndarray, sizes: np.ndarray = SIZES, benchmark: str = "p2p.latency") -> pd.DataFrame:
    """Samples of one cell with one repetition a launch; `times` is launch x size."""
    launch, size = (a.ravel() for a in np.meshgrid(range(len(times)), sizes.astype(int), indexing="ij"))
    table = pd.DataFrame({"launch": launch, "message_bytes": size, "value": times.ravel()})
    return table.assign(
        run="r", cell="c", label="l", benchmark=benchmark, nodes=2, ranks_per_node=1, rank="all", phase="measure",
        repetition=0, metric="one_way_latency", unit="s", better="lower", operations=1, outlier=False,
    )  # fmt: skip


def modelled(samples: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    models, residuals = run_models(samples, summarise(samples, ["message_bytes"]))
    assert list(MODEL_COLUMNS) == list(models) and list(RESIDUAL_COLUMNS) == list(residuals)
    return models.set_index("parameter"), residuals


def noisy(model: Hockney, launches: int, sigma: float = 0.02, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return model.time(SIZES) * draw.lognormal(0, sigma, (launches, len(SIZES)))


@given(t0s, bandwidths)
def test_an_exact_curve_gives_back_its_parameters_when_the_sizes_show_both(t0: float, r_inf: float) -> None:
    sizes = t0 * r_inf * np.array([0, 0.01, 0.1, 1, 10, 100])
    found = fit_curve(sizes, Hockney(t0, r_inf).time(sizes))
    assert (found.t0, found.r_inf) == pytest.approx((t0, r_inf), rel=1e-6)


@given(st.floats(1e-6, 1e-4), st.floats(1e8, 1e10), st.integers(0, 1 << 32))
def test_noise_of_five_percent_moves_the_parameters_little(t0: float, r_inf: float, seed: int) -> None:
    times = noisy(Hockney(t0, r_inf), 1, 0.05, seed)[0]
    found = fit_curve(SIZES, times)
    assert (found.t0, found.r_inf) == pytest.approx((t0, r_inf), rel=0.25)


@given(t0s, bandwidths)
def test_the_four_parameters_always_obey_equation_2(t0: float, r_inf: float) -> None:
    model = Hockney(t0, r_inf)
    assert model.t0 == pytest.approx(model.m_half / model.r_inf) == pytest.approx(1 / model.pi0)
    half = model.m_half / model.time(model.m_half)
    assert half == pytest.approx(model.r_inf / 2)


@given(st.lists(st.floats(1e-9, 1e3), min_size=3, max_size=24), st.integers(0, 1 << 32))
@settings(max_examples=200)
def test_any_positive_times_give_positive_parameters_or_a_reason(times: list[float], seed: int) -> None:
    sizes = np.sort(np.random.default_rng(seed).choice(1 << 22, len(times), replace=False)).astype(float)
    try:
        found = fit_curve(sizes, np.array(times))
    except NoFit as reason:
        assert str(reason)
    else:
        assert all(np.isfinite(value) and value > 0 for value in found.parameters().values())


@pytest.mark.parametrize(
    ("sizes", "times", "reason"),
    [
        ([0, 8], [1e-6, 2e-6], "2 distinct message sizes, at least 3"),
        ([0, 0, 0, 0], [1e-6, 2e-6, 3e-6, 4e-6], "1 distinct"),
        ([0, 8, 64], [1e-6, 1e-6, 1e-6], "does not grow"),
        ([0, 8, 64], [3e-6, 2e-6, 1e-6], "does not grow"),
        ([8, 64, 512], [8e-6, 64e-6, 512e-6], "proportional"),
        ([0, 8, 64], [0.0, 1e-6, 2e-6], "not positive"),
        ([0, 8, 64], [1e-6, np.nan, 2e-6], "missing"),
    ],
)
def test_data_that_determine_nothing_are_declined_with_the_reason(
    sizes: list[float], times: list[float], reason: str
) -> None:
    with pytest.raises(NoFit, match=reason):
        fit_curve(np.array(sizes, dtype=float), np.array(times))


def test_a_declined_fit_is_told_in_the_table_with_empty_values() -> None:
    models, residuals = modelled(measured(np.full((7, len(SIZES)), 1e-6)))
    assert models["value"].isna().all() and residuals.empty
    assert models["method"].str.startswith("no fit: the time does not grow").all()
    assert list(models.index) == ["t0", "r_inf", "m_half", "pi0", "max_relative_residual"]


@pytest.mark.parametrize(("launches", "method"), [(7, "bootstrap"), (3, "covariance"), (1, "covariance")])
def test_the_intervals_name_their_method_and_hold_the_estimate(launches: int, method: str) -> None:
    models, _ = modelled(measured(noisy(Hockney(1e-5, 3e9), launches)))
    fitted = models.drop("max_relative_residual")
    assert fitted["method"].str.contains(method).all()
    assert (fitted["ci_low"] < fitted["value"]).all() and (fitted["value"] < fitted["ci_high"]).all()
    assert fitted.loc["m_half", "value"] == pytest.approx(fitted.loc["t0", "value"] * fitted.loc["r_inf", "value"])


@pytest.mark.parametrize("launches", [3, 10])
def test_the_intervals_cover_the_truth_about_as_often_as_they_say(launches: int) -> None:
    truth = Hockney(1e-5, 3e9)
    hits = []
    for seed in range(20):
        models, _ = modelled(measured(noisy(truth, launches, seed=seed)))
        hits += [models.loc[n, "ci_low"] <= v <= models.loc[n, "ci_high"] for n, v in truth.parameters().items()]
    assert np.mean(hits) > 0.85


def test_the_same_samples_give_the_same_table() -> None:
    samples = measured(noisy(Hockney(1e-5, 3e9), 8))
    pd.testing.assert_frame_equal(modelled(samples)[0], modelled(samples)[0])


def test_residuals_show_where_a_curve_is_not_affine() -> None:
    times = Hockney(1e-5, 3e9).time(SIZES) + np.where(SIZES > 8192, 4e-5, 0)
    models, residuals = modelled(measured(np.tile(times, (7, 1))))
    assert models.loc["max_relative_residual", "value"] == residuals["relative_residual"].abs().max() > 0.2
    worst = residuals.loc[residuals["relative_residual"].idxmax()]
    assert worst["x_value"] == 16384
    assert worst["relative_residual"] == pytest.approx((worst["observed"] - worst["predicted"]) / worst["predicted"])
    said = predict(models["value"].to_dict(), residuals["x_value"])
    assert said == pytest.approx(residuals["predicted"].to_numpy())


def test_a_manifest_may_choose_no_model() -> None:
    samples = measured(noisy(Hockney(1e-5, 3e9), 3))
    assert run_models(samples, summarise(samples, ["message_bytes"]), only=[])[0].empty


def test_a_benchmark_that_asks_for_no_model_gets_none() -> None:
    models, residuals = modelled(measured(noisy(Hockney(1e-5, 3e9), 3), benchmark="p2p.bandwidth"))
    assert models.empty and residuals.empty
