"""When to retry, in the text of a refusal: the one part of an answer that every client can read."""

import math
import re

_HINT = re.compile(r"try again in (\d{1,9}) ms", re.ASCII)


def retry_hint(wait_s: float) -> str:
    """The end of a sentence with the wait; at least a millisecond."""
    return f"try again in {max(1, math.ceil(wait_s * 1000))} ms"


def parse_retry_hint(text: str) -> float:
    """The seconds to wait that a refusal names, 0 if it names none."""
    found = _HINT.search(text)
    return int(found[1]) / 1000 if found else 0.0
