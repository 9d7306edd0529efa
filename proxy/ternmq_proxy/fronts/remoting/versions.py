"""The versions of clients: each release of RocketMQ has a number."""

from typing import Final

_RELEASES: Final = {
    79: "3.2.6", 121: "3.4.9", 137: "3.5.8", 213: "4.0.0", 233: "4.1.0", 253: "4.2.0", 273: "4.3.0", 293: "4.4.0",
    313: "4.5.0", 317: "4.5.2", 333: "4.6.0", 335: "4.6.1", 353: "4.7.0", 355: "4.7.1", 373: "4.8.0", 393: "4.9.0",
    395: "4.9.1", 397: "4.9.2", 399: "4.9.3", 401: "4.9.4", 403: "4.9.5", 405: "4.9.6", 407: "4.9.7", 409: "4.9.8",
    413: "5.0.0", 433: "5.1.0", 441: "5.1.4", 453: "5.2.0", 473: "5.3.0", 475: "5.3.1", 477: "5.3.2", 479: "5.3.3",
    493: "5.4.0", 513: "5.5.0",
}  # fmt: skip

NEWEST: Final = max(_RELEASES)
OBEYS_RETRIES_MAX_FROM: Final = 121
"""Clients from this version on say how often they want to try again."""
RELEASE_5_FROM: Final = 413
POPS_FROM: Final = RELEASE_5_FROM
"""Clients from this version on can pop."""


def version_name(number: int) -> str:
    """Return the release of a version number, such as 4.9.8; one between two releases as the earlier one with a plus
    sign."""
    known = _RELEASES.get(number)
    if known is not None:
        return known
    earlier = max((each for each in _RELEASES if each < number), default=None)
    return str(number) if earlier is None else f"{_RELEASES[earlier]}+"


def version_number(name: str) -> int:
    """Return the number of a release such as 4.9.8, or of the newest release below it; 0 if it is no release."""
    wanted = _parts_of(name.removesuffix("+"))
    return max((number for number, release in _RELEASES.items() if _parts_of(release) <= wanted), default=0)


def _parts_of(name: str) -> tuple[int, ...]:
    parts = name.split(".")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts) else ()
