"""On which event loop tests run: asyncio's own, and those for which the loop matters on each that servers run on; and
a PostgreSQL for all tests of a process."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ternmq_runtime.event_loop import LoopFactory
from tests.support.loops import ASYNCIO, EACH
from tests.support.postgres import Postgres

_HERE = Path(__file__).parent
# Transports, timers, readers of pipes, other threads: all of them are the loop's.
_ON_EACH = (
    "broker/test_appending.py",
    "broker/test_flusher.py",
    "cluster/test_link.py",
    "rpc/grpc_stream",
    "rpc/tls",
    "common/test_eager.py",
    "common/test_turn_end.py",
    "runtime/observability/test_http_thread.py",
)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    del config
    return EACH if item.path.relative_to(_HERE).as_posix().startswith(_ON_EACH) else ASYNCIO
