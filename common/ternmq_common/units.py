"""Sizes and durations as people write them.

Apart from the settings, so that a command that takes a duration need not import all settings.
"""

import re
from collections.abc import Mapping
from decimal import Decimal

SIZE_UNITS = {
    "TiB": 1024**4,
    "GiB": 1024**3,
    "MiB": 1024**2,
    "KiB": 1024,
    "TB": 1000**4,
    "GB": 1000**3,
    "MB": 1000**2,
    "KB": 1000,
    "B": 1,
}
DURATION_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}

_SIZE_FACTORS = {unit.lower(): factor for unit, factor in SIZE_UNITS.items()}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|d|h|m|s)", re.ASCII)


def parse_size(text: str) -> int:
    """Parse bytes of `64MiB`, `1.5GiB`, `10MB` or `4096`; ValueError with what is allowed."""
    match = _SIZE.fullmatch(text.strip().lower())
    factor = _SIZE_FACTORS.get(match[2] or "b") if match else None
    if match is None or factor is None:
        raise ValueError("a size like 64MiB, 1GiB or 4096 is needed")
    size = Decimal(match[1]) * factor
    if size != int(size):
        raise ValueError("a whole number of bytes is needed")
    return int(size)


def parse_duration(text: str, *, unit: str) -> Decimal:
    """Parse a duration, in `unit` (`ms` or `s`): `500ms`, `90s`, `1h30m`, or a plain number in `unit`."""
    compact = text.strip().lower().replace(" ", "")
    if re.fullmatch(r"\d+(\.\d+)?", compact, re.ASCII):
        return Decimal(compact)
    parts = _DURATION_PART.findall(compact)
    if not parts or "".join(number + name for number, name in parts) != compact:
        raise ValueError("a duration like 500ms, 90s, 15m, 72h or 3d is needed")
    total_ms = sum((Decimal(number) * DURATION_UNITS_MS[name] for number, name in parts), Decimal(0))
    return total_ms / DURATION_UNITS_MS[unit]


def render_duration(milliseconds: int) -> str:
    """Render `500ms`, `90s`, `2h`: in the largest unit that divides it."""
    return render_in_largest_unit(milliseconds, DURATION_UNITS_MS) if milliseconds else "0s"


def spell_duration(milliseconds: int) -> str:
    """Render `39d4h12m5s`: in all units down to the second."""
    rest, parts = milliseconds, list[str]()
    for unit, size in DURATION_UNITS_MS.items():
        number, rest = divmod(rest, size)
        if number and size >= DURATION_UNITS_MS["s"]:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


def render_in_largest_unit(value: int, units: Mapping[str, int]) -> str:
    unit, factor = next((unit, factor) for unit, factor in units.items() if value % factor == 0)
    return f"{value // factor}{unit}"
