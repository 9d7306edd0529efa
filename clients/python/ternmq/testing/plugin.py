"""The pytest plugin of the extra `testing`: two fixtures and a marker.

Nothing of the server is imported before a test uses a fixture.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from ternmq.testing.stack import Stack

MARKER = (
    "ternmq(**settings): settings of `ternmq up` for the broker of the fixture `ternmq_server`; see ternmq.testing."
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def ternmq_server(request: pytest.FixtureRequest) -> Iterator[Stack]:
    """A broker for one test, with a clock that `ternmq_server.advance` moves; a `ternmq.testing.Stack`.

    Its settings are those of `@pytest.mark.ternmq(name=value, ...)`; of several markers the nearest one wins.
    """
    settings: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("ternmq"))):
        if marker.args:
            pytest.fail(f"@pytest.mark.ternmq takes settings by name, not {marker.args!r}", pytrace=False)
        settings |= marker.kwargs
    with Stack(**settings) as stack:
        yield stack


@pytest.fixture
def ternmq() -> None:
    """The former name of `ternmq_server`, which hid the module `ternmq` in every test that used it."""
    pytest.fail("the fixture 'ternmq' is called 'ternmq_server' now, so that the module can be used too", pytrace=False)


@pytest.fixture(scope="session")
def ternmq_session() -> Iterator[Stack]:
    """A broker for all tests; they keep apart by `ternmq_session.fresh_name()`.

    Its clock can't be moved, since it would move for all of them.
    """
    with Stack(test_clock=False) as stack:
        yield stack
