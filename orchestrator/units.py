"""Quantities as users write them ("4MiB", "60s") to SI base units (bytes, seconds), and back for display.

Unit symbols: the decimal and binary prefixes of IEC 80000-13.
"""

from __future__ import annotations

import math
import re

_BYTES = {"B": 1} | {
    f"{prefix}B": base**power
    for base, prefixes in ((1000, ("k", "M", "G", "T")), (1024, ("Ki", "Mi", "Gi", "Ti")))
    for power, prefix in enumerate(prefixes, start=1)
}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*")


def parse_bytes(value: int | str) -> int:
    """Bytes from a plain number of bytes or a text with a unit; ValueError says what is allowed."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} is not a size; write bytes as 65536 or with a unit as 64KiB")
    number = value if isinstance(value, int) else _number(value, _BYTES, "64KiB")
    if number < 0:
        raise ValueError(f"{value!r} is negative; a size is 0 or more")
    if number != int(number):
        raise ValueError(f"{value!r} is not a whole number of bytes")
    return int(number)


def parse_seconds(value: str) -> float:
    """Seconds from a text with a unit; ValueError says what is allowed."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} has no unit; write a duration as 500ms, 60s or 5min")
    return float(_number(value, _SECONDS, "60s"))


def _number(text: str, factors: dict[str, int] | dict[str, float], example: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        if re.fullmatch(r"\s*[0-9]+\s*", text) and "B" in factors:
            return int(text)
        raise ValueError(f"{text!r} is not a number with a unit; write it as {example}")
    digits, unit = match.groups()
    if unit not in factors:
        raise ValueError(f"unknown unit {unit!r} in {text!r}; allowed: {', '.join(factors)}")
    number = int(digits) if digits.isdigit() else float(digits)
    return number * factors[unit]


def show_bytes(number: int) -> str:
    """The shortest exact binary form: 65536 -> '64 KiB', 1000 -> '1000 B'."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if number and number % _BYTES[unit] == 0:
            return f"{number // _BYTES[unit]} {unit}"
    return f"{number} B"


def show_si(value: float, unit: str) -> str:
    """Three significant digits with an SI prefix: (8.1e-6, 's') -> '8.10 us', (2e6, '1/s') -> '2.00 M/s'."""
    if unit == "1":  # a ratio or a count
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    value = float(f"{value:.3g}")  # rounded first, so that 999.9 becomes 1.00 k and not 1000
    smallest, largest = (-3, 0) if unit == "s" else (0, 4)  # seconds have no kilo, bytes no milli
    exponent = min(max(math.floor(math.log10(abs(value)) / 3), smallest), largest)
    scaled = value / 1000**exponent
    decimals = max(0, 2 - math.floor(math.log10(abs(scaled))))
    prefix = {-3: "n", -2: "u", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T"}[exponent]
    return f"{scaled:.{decimals}f} {prefix}{unit.removeprefix('1') if prefix else unit}"


def show_seconds(seconds: float) -> str:
    """A duration for people: '0.4 s', '12 s', '3 min 05 s', '2 h 10 min'."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
