"""A short sleep for threads that work for long beside the event loop."""

import time

_PAUSE_S = 50e-6


def yield_interpreter() -> None:
    """Release the interpreter lock long enough that a waiting thread gets it."""
    time.sleep(_PAUSE_S)
