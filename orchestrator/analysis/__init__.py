"""What follows from samples alone: statistics, and models of what was measured.

A derivation is a module of this package, named in `DERIVATIONS` and asked for by `Benchmark.derivations`; it makes
metrics from others. A model is a module of this package, named in `MODELS` and asked for by `Benchmark.models`. It has
`fit(samples, summary)`, which gives rows of models.csv and residuals.csv, `predict(parameters, x)` and `ABOUT`.
Modules are loaded when first used, so that a command that analyses nothing does not wait for SciPy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from orchestrator.families import BENCHMARKS

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

MODELS = {"hockney": "orchestrator.analysis.hockney", "nlogp": "orchestrator.analysis.nlogp"}

DERIVATIONS = {"overlap": "orchestrator.analysis.overlap", "speedup": "orchestrator.analysis.speedup"}

MODEL_COLUMNS = (
    *("run", "cell", "label", "benchmark", "model", "parameter", "value", "unit"),
    *("ci_low", "ci_high", "ci_level", "n", "method"),
)
RESIDUAL_COLUMNS = (
    *("run", "cell", "model", "x", "x_value", "observed", "predicted", "relative_residual", "unit"),
)  # fmt: skip


class Model(Protocol):
    """What a model's module offers; `predict` gives the metric in its SI unit, `ABOUT` explains it to readers."""

    ABOUT: str

    def fit(self, samples: pd.DataFrame, summary: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]: ...

    def predict(self, parameters: Mapping[str, float], x: ArrayLike) -> NDArray[np.float64]: ...


class Derivation(Protocol):
    """What a derivation's module offers: metrics made from others, as rows with the columns of summary.csv."""

    def derive(self, samples: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame: ...


def load(model: str) -> Model:
    """The model's module; KeyError when no model has this name."""
    return cast(Model, import_module(MODELS[model]))


def run_models(
    samples: pd.DataFrame, summary: pd.DataFrame, only: Collection[str] | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The models that the benchmarks found in `samples` ask for: rows of models.csv and of residuals.csv.

    `only` names the models that a manifest chose among these; None means all.
    """
    import pandas as pd

    models, residuals = [], []
    for name in samples["benchmark"].unique():
        benchmark = BENCHMARKS.get(name)
        for model in benchmark.models if benchmark else ():
            if only is None or model in only:
                fitted = load(model).fit(samples[samples["benchmark"] == name], summary[summary["benchmark"] == name])
                models.append(fitted[0])
                residuals.append(fitted[1])
    return (
        pd.concat(models, ignore_index=True) if models else pd.DataFrame(columns=list(MODEL_COLUMNS)),
        pd.concat(residuals, ignore_index=True) if residuals else pd.DataFrame(columns=list(RESIDUAL_COLUMNS)),
    )


def run_derivations(samples: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """The summary with the rows that derivations add; each sees all benchmarks that ask for it, together."""
    import pandas as pd

    asking: dict[str, list[str]] = {}
    for name in summary["benchmark"].unique():
        for derivation in BENCHMARKS[name].derivations if name in BENCHMARKS else ():
            asking.setdefault(derivation, []).append(name)
    parts = [summary]
    for derivation, names in asking.items():
        module = cast(Derivation, import_module(DERIVATIONS[derivation]))
        parts.append(
            module.derive(samples[samples["benchmark"].isin(names)], summary[summary["benchmark"].isin(names)])
        )
    return pd.concat([part for part in parts if len(part)], ignore_index=True) if len(summary) else summary
