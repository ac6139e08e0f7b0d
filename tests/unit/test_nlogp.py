"""nLogP: it finds the parameters that made the curves, those of its paper's tables, and says when there are none."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import project
from orchestrator.analysis import MODEL_COLUMNS, RESIDUAL_COLUMNS, overlap
from orchestrator.analysis.nlogp import Estimate, NLogP, NoFit, estimate, estimate_curve, fit, predict
from orchestrator.analysis.statistics import parameter_columns, summarise

SIZES = 2.0 ** np.arange(17)  # 1 B to 64 KiB
PAPER = project.EXPERIMENTS / "papers" / "overlap" / "reference"
PARAMETERS = ["exchange", "iteration_time", "message_bytes", "order", "overlapped_iterations", "poll", "time_steps",
              "work_iterations"]  # fmt: skip

overheads = st.floats(1e-7, 1e-4)
latencies = st.floats(1e-6, 1e-3)
widths = st.integers(64, 4096)


def paper(table: str) -> dict[tuple[str, int, int], float]:
    """A reference table as {(metric, nodes, message bytes or 0): seconds}."""
    with (PAPER / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {(r["metric"], int(r["nodes"]), int(r.get("message_bytes", 0))): float(r["value"]) for r in rows}


@given(overheads, st.floats(2.1, 50), latencies, widths)
def test_exact_curves_give_back_o_g_and_L(o: float, ratio: float, latency: float, w: int) -> None:
    made = NLogP(o, ratio * o, latency, w)
    found = estimate_curve(SIZES, made.busy(SIZES), made.overlappable(SIZES), w)
    assert (found.o.value, found.g.value) == pytest.approx((made.o, made.g), rel=1e-6)
    assert found.L.value == pytest.approx(made.L, rel=1e-6, abs=1e-9 * made.time(SIZES).max())


@given(overheads, st.floats(0, 1.9), latencies, widths)
def test_a_gap_that_hides_behind_the_overhead_stays_unknown(o: float, ratio: float, latency: float, w: int) -> None:
    made = NLogP(o, ratio * o, latency, w)
    c = made.overlappable(SIZES) * (1 - 1e-6 * np.arange(len(SIZES)))  # rounding must not decide the case
    found = estimate_curve(SIZES, made.busy(SIZES), c, w)
    assert math.isnan(found.g.value)
    assert (found.o.value, found.L.value) == pytest.approx((made.o, made.L), rel=1e-4)


@given(st.integers(0, 1 << 32))
def test_noise_of_two_percent_moves_the_parameters_little(seed: int) -> None:
    made = NLogP(26e-6, 146e-6, 295e-6)
    draw = np.random.default_rng(seed)
    p, c = (t * (1 + 0.02 * draw.standard_normal(len(SIZES))) for t in (made.busy(SIZES), made.overlappable(SIZES)))
    found = estimate_curve(SIZES, p, c)
    assert (found.o.value, found.g.value) == pytest.approx((made.o, made.g), rel=0.15)
    assert found.L.value == pytest.approx(made.L, rel=0.75)  # what is left of milliseconds, hence the least certain


def test_the_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    made = NLogP(26e-6, 146e-6, 295e-6)
    draw = np.random.default_rng(1)
    hits = []
    for _ in range(400):
        p, c = (t + 20e-6 * draw.standard_normal(len(SIZES)) for t in (made.busy(SIZES), made.overlappable(SIZES)))
        found = estimate_curve(SIZES, p, c)
        hits += [e.low <= v <= e.high for e, v in ((found.o, made.o), (found.g, made.g), (found.L, made.L))]
    assert np.mean(hits) == pytest.approx(0.95, abs=0.03)


def test_every_n_has_parameters_of_its_own() -> None:
    made = {2: NLogP(1e-6, 5e-6, 2e-6), 3: NLogP(2e-6, 9e-6, 4e-6)}
    points = [(n, k, float(m.busy(k)), float(m.overlappable(k))) for k in SIZES for n, m in made.items()]
    found = estimate(*zip(*points, strict=True))
    assert {n: pytest.approx((m.o, m.g, m.L)) for n, m in made.items()} == {
        n: (e.model.o, e.model.g, e.model.L) for n, e in found.items() if isinstance(e, Estimate)
    }


@given(overheads, st.floats(0, 50), latencies, widths, st.integers(0, 1 << 20))
def test_busy_and_overlappable_time_are_all_of_the_time(o: float, ratio: float, latency: float, w: int, k: int) -> None:
    model = NLogP(o, ratio * o, latency, w)
    f = max(math.ceil(k / w), 1)
    assert model.time(k) == pytest.approx(o + (f - 1) * max(model.g, 2 * o) + latency + o)
    assert predict({"o": o, "g": model.g, "L": latency, "w": w}, k) == model.time(k)


@pytest.mark.parametrize("n", range(2, 9))
def test_tables_1_and_2_of_the_paper_give_about_its_table_3(n: int) -> None:
    """The paper does not say how it estimated; its o, and its L but for n = 8, lie within our intervals."""
    tables, expected = paper("table1-2"), paper("table3")
    sizes = np.array([k for metric, nodes, k in tables if (metric, nodes) == ("overlappable", n)], dtype=float)
    p, c = (np.array([tables[m, n, int(k)] for k in sizes]) for m in ("non_overlappable", "overlappable"))
    found = estimate(np.full(len(sizes), n), sizes, p, c)[n]
    assert isinstance(found, Estimate)
    assert list(found.fitted) == [2.0**power for power in range(11, 17)]  # 128 KiB waits for its receiver
    for name, estimated in (("o", found.o), ("g", found.g), ("L", found.L)):
        assert estimated.low <= expected[name, n, 0] <= estimated.high
    assert found.o.value == pytest.approx(expected["o", n, 0], rel=0.11)
    assert found.g.value == pytest.approx(expected["g", n, 0], rel=0.06)
    assert found.L.value == pytest.approx(expected["L", n, 0], rel=0.08 if n < 8 else 0.4)


@pytest.mark.parametrize(
    ("sizes", "overlappable", "reason"),
    [
        ([1, 512, 1024], [1e-5] * 3, "0 distinct numbers of fragments above one"),
        ([2048, 4096], [1e-5] * 2, "2 distinct"),
        ([1449, 1500, 2896, 2900], [1e-5] * 4, "2 distinct"),
        ([2048, 4096, 8192, 16384], [1e-5, 2e-5, 0, 0], "2 distinct"),
        ([2048, 4096, 8192], [1e-5, math.nan, 3e-5], "missing"),
    ],
)
def test_curves_that_determine_nothing_are_declined_with_the_reason(
    sizes: Sequence[float], overlappable: Sequence[float], reason: str
) -> None:
    c = np.array(overlappable)
    with pytest.raises(NoFit, match=reason):
        estimate_curve(np.array(sizes, dtype=float), np.full(len(c), 1e-5), c)


def test_no_overhead_is_declined() -> None:
    with pytest.raises(NoFit, match="no time is left"):
        estimate_curve(SIZES, np.full(len(SIZES), -1e-6), NLogP(1e-6, 5e-6, 1e-6).overlappable(SIZES))


def shift(model: NLogP, nodes: int, sizes: np.ndarray = SIZES, launches: int = 3) -> pd.DataFrame:
    """Samples of circular shifts that obey the model exactly; 1 us of work an iteration, 0 to 20,000 overlapped."""
    work = 20_000
    rows = []
    for k in sizes:
        idle, pure = float(model.overlappable(k)), float(model.time(k))
        for launch in range(launches):
            for x in (0, work // 2, work):
                total = pure + work * 1e-6 - min(x * 1e-6, idle)
                times = {"t_pure": pure, "t_comp": work * 1e-6, "t_total": total}
                rows += [
                    {"cell": f"{nodes}-{k:.0f}", "launch": launch, "overlapped_iterations": x, "metric": name,
                     "value": value, "message_bytes": int(k)} for name, value in times.items()
                ]  # fmt: skip
    return pd.DataFrame(rows).assign(
        run="r", label="l", benchmark="overlap.circular_shift", nodes=nodes, ranks_per_node=1, rank="all",
        phase="measure", repetition=0, unit="s", better="lower", operations=1, outlier=False, exchange="bsend",
        poll=False, iteration_time=1e-6, work_iterations=work,
    )  # fmt: skip


def jacobi(nodes: int, order: int, inner: float, gain: float) -> pd.DataFrame:
    """Samples of one launch of the relaxation."""
    times = {"t_b": inner, "t_blocking": 5e-3 + gain, "t_overlapped": 5e-3}
    return pd.DataFrame({"metric": list(times), "value": list(times.values())}).assign(
        run="r", cell=f"j{nodes}-{order}", label="j", benchmark="overlap.jacobi", nodes=nodes, ranks_per_node=1,
        rank="all", phase="measure", repetition=0, launch=0, unit="s", better="lower", operations=100, outlier=False,
        order=order, time_steps=100,
    )  # fmt: skip


def derived(samples: pd.DataFrame) -> pd.DataFrame:
    samples = samples.reindex(columns=[*samples.columns, *(p for p in PARAMETERS if p not in samples)])
    return overlap.derive(samples, summarise(samples, parameter_columns(samples)))


def test_the_parts_of_a_shift_are_those_of_the_paper() -> None:
    model = NLogP(26e-6, 146e-6, 295e-6)
    rows = derived(shift(model, 2)).set_index(["metric", "message_bytes"])["median"]
    for k in SIZES:
        assert rows["overlappable", k] == pytest.approx(float(model.overlappable(k)))
        assert rows["non_overlappable", k] == pytest.approx(float(model.busy(k)))


def test_the_ratios_are_those_of_imb_and_osu() -> None:
    """Of 400 us, 300 can be hidden, behind 20 ms of work: IMB divides by the work, OSU by the 400 us."""
    rows = derived(shift(NLogP(50e-6, 60e-6, 300e-6), 2, np.array([1.0])))
    ratio = rows.set_index(["metric", "overlapped_iterations"])["median"]
    assert ("overlap_imb", 0) not in ratio and ("overlap_osu", 0) not in ratio
    assert ratio["overlap_imb", 20_000] == pytest.approx(300e-6 / 20e-3)
    assert ratio["overlap_osu", 20_000] == pytest.approx(0.75)


def test_a_derived_row_has_the_columns_of_the_summary_and_an_interval_over_launches() -> None:
    samples = shift(NLogP(26e-6, 146e-6, 295e-6), 2, launches=6)
    summary = summarise(samples, parameter_columns(samples))
    rows = overlap.derive(samples, summary)
    assert list(summary.columns) == list(rows.columns)
    assert set(rows["metric"]) == {"overlappable", "non_overlappable", "overlap_imb", "overlap_osu"}
    assert (rows["launches"] == 6).all() and rows["ci_level"].notna().all()


def test_a_disturbed_repetition_changes_no_part() -> None:
    samples = shift(NLogP(26e-6, 146e-6, 295e-6), 2)
    disturbed = samples.assign(repetition=1, value=samples["value"] * np.linspace(1, 9, len(samples)))
    parts = [rows[rows["unit"] == "s"] for rows in (derived(samples), derived(pd.concat([samples, disturbed])))]
    assert list(parts[0]["median"]) == pytest.approx(list(parts[1]["median"]))


def test_a_shift_never_run_without_overlap_has_no_parts() -> None:
    samples = shift(NLogP(26e-6, 146e-6, 295e-6), 2)
    rows = derived(samples[samples["overlapped_iterations"] > 0])
    assert {"overlap_imb", "overlap_osu"} == set(rows["metric"])


def test_the_gain_is_predicted_from_the_shift_on_as_many_ranks() -> None:
    """Order 64 is limited by its work, order 256 by what its rows of 2 KiB leave to overlap; 4 ranks have no model."""
    model = NLogP(26e-6, 146e-6, 295e-6)
    programs = [jacobi(2, 64, 30e-6, 28e-6), jacobi(2, 256, 900e-6, 350e-6), jacobi(4, 64, 9e-6, 8e-6)]
    rows = derived(pd.concat([shift(model, 2), *programs], ignore_index=True))
    gains = rows.set_index(["metric", "cell"])["median"]
    assert gains["gain_predicted", "j2-64"] == pytest.approx(30e-6)
    assert gains["gain_predicted", "j2-256"] == pytest.approx(94e-6 + 295e-6)
    assert ("gain_predicted", "j4-64") not in gains
    assert pytest.approx([gains["gain", f"j{n}"] for n in ("2-64", "2-256", "4-64")]) == [28e-6, 350e-6, 8e-6]


def test_a_relaxation_alone_has_a_gain_but_no_prediction() -> None:
    assert list(derived(jacobi(2, 64, 30e-6, 28e-6))["metric"]) == ["gain"]


def test_the_tables_hold_a_model_for_each_n_and_its_residuals() -> None:
    made = {2: NLogP(26e-6, 146e-6, 295e-6), 4: NLogP(30e-6, 40e-6, 350e-6)}
    samples = pd.concat([shift(model, n) for n, model in made.items()], ignore_index=True)
    models, residuals = fit(samples, summarise(samples, parameter_columns(samples)))
    assert list(MODEL_COLUMNS) == list(models) and list(RESIDUAL_COLUMNS) == list(residuals)
    values = models.set_index(["cell", "parameter"])["value"]
    assert (values["2-1", "o"], values["2-1", "g"], values["2-1", "L"]) == pytest.approx((26e-6, 146e-6, 295e-6))
    assert (values["4-1", "o"], values["4-1", "L"]) == pytest.approx((30e-6, 350e-6))
    said = models.set_index(["cell", "parameter"])["method"]
    assert said["2-1", "o"] == "least squares for 2 ranks over messages of 2048 to 65536 B, t interval"
    assert residuals["relative_residual"].abs().max() < 1e-9
    assert len(residuals) == 2 * len(SIZES)


def test_a_declined_fit_is_told_in_the_table_with_empty_values() -> None:
    samples = shift(NLogP(26e-6, 146e-6, 295e-6), 2, SIZES[:5])
    models, residuals = fit(samples, summarise(samples, parameter_columns(samples)))
    assert models["value"].isna().all() and residuals.empty
    assert models["method"].str.startswith("no fit for 2 ranks: 0 distinct numbers of fragments").all()
