"""What a loop says when its step fails and is tried again: each trouble with files once, until a step works.

A full disk passes, and may last for days; a step that fails every second must not fill the log of it too.
"""

import logging

_log = logging.getLogger(__name__)


class FailureLog:
    """The failures of one loop, of which `what` says what they mean."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._said: int | None = None

    def failed(self, error: Exception, again_s: float) -> None:
        """The step failed, and is tried again in so many seconds. What is no trouble with files is a bug, and said with
        its place each time."""
        if not isinstance(error, OSError):
            _log.error("%s; it is tried again in %g s", self._what, again_s, exc_info=error)
        elif error.errno != self._said:
            self._said = error.errno
            _log.error("%s: %s; it is tried again every %g s", self._what, error, again_s)

    def worked(self) -> None:
        """The step was done."""
        if self._said is not None:
            self._said = None
            _log.info("what did not work before works again (%s)", self._what)
