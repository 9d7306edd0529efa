"""A pause of a thread that works for long beside the event loop."""

import time

_PAUSE_S = 50e-6


def yield_interpreter() -> None:
    """Let go of the interpreter lock long enough that a thread which waits for it gets it."""
    time.sleep(_PAUSE_S)
