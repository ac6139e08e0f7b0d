"""Sweeps: what a manifest's `sweep:` block means, as the list of points it spans.

`matrix` axes are crossed, `zip` axes vary together, and `exclude` drops points for which an expression is true.
Pure functions of values; positions and parameter types are the manifest's business.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from simpleeval import EvalWithCompoundTypes, InvalidExpression

Scalar = int | float | str | bool
MAX_POINTS = 100_000
_ALLOWED = (
    *(ast.Expression, ast.Name, ast.Load, ast.Constant, ast.Tuple, ast.List),
    *(ast.BoolOp, ast.boolop, ast.Compare, ast.cmpop, ast.UnaryOp, ast.unaryop),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
)


def arithmetic(start: float, stop: float, step: float) -> list[int | float]:
    """start, start + step, ... up to and including stop (with a float's tolerance)."""
    if not step > 0:
        raise ValueError(f"step {step} must be positive")
    try:
        count = math.floor((stop - start) / step + 1e-9) + 1
    except (OverflowError, ValueError) as error:
        raise ValueError(f"from {start} to {stop} by {step} is no range; give finite numbers") from error
    if count > MAX_POINTS:
        raise ValueError(f"{count} values are more than the {MAX_POINTS} allowed")
    return [start + index * step for index in range(max(count, 0))]


def powers_of_two(start: int, stop: int) -> list[int]:
    """start, 2 start, 4 start, ... not beyond stop."""
    if start < 1:
        raise ValueError(f"log2 starts at {start}; it must be 1 or more (put 0 under `include`)")
    if stop < start:
        return []
    return [start << power for power in range((stop // start).bit_length())]


def points(
    fixed: Mapping[str, Scalar],
    matrix: Mapping[str, Sequence[Scalar]],
    zipped: Mapping[str, Sequence[Scalar]],
    exclude: Iterable[str],
) -> list[dict[str, Scalar]]:
    """Every point: the fixed values, a value of each matrix axis, a row of the zipped axes; later axes vary fastest."""
    rows = list(zip(*zipped.values(), strict=True)) if zipped else [()]
    size = math.prod(map(len, matrix.values())) * len(rows)
    if size > MAX_POINTS:
        raise ValueError(f"the sweep spans {size} points, more than the {MAX_POINTS} allowed; split the manifest")
    conditions = [condition(text) for text in exclude]
    spanned = (
        dict(fixed) | dict(zip(zipped, row, strict=True)) | dict(zip(matrix, combination, strict=True))
        for row in rows
        for combination in itertools.product(*matrix.values())
    )
    return [point for point in spanned if not any(holds(point) for holds in conditions)]


def names_in(expression: str) -> set[str]:
    """The names an expression uses; ValueError when it is not an expression."""
    try:
        nodes = list(ast.walk(ast.parse(expression, mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(
            f"{expression!r} is not an expression; write for example `pairs > 1 and window == 64`"
        ) from error
    for node in nodes:
        if not isinstance(node, _ALLOWED):
            raise ValueError(
                f"{expression!r} uses {type(node).__name__}; allowed: comparisons, + - * / // %, and, or, not, in"
            )
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def condition(expression: str) -> Callable[[Mapping[str, Any]], bool]:
    """The expression as a predicate of points: comparisons, arithmetic, and/or/not, `in`. No calls, no powers."""
    names_in(expression)
    evaluator = EvalWithCompoundTypes()
    evaluator.operators[ast.Mod] = _remainder
    parsed = evaluator.parse(expression)

    def holds(point: Mapping[str, Any]) -> bool:
        evaluator.names = dict(point)
        try:
            return bool(evaluator.eval(expression, previously_parsed=parsed))
        except (InvalidExpression, TypeError, ArithmeticError, ValueError, RecursionError) as error:
            raise ValueError(f"{expression!r} cannot be evaluated ({error})") from error

    return holds


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, str | bytes):  # would format: a width makes a text of any length
        raise TypeError("% is for numbers")
    return left % right
