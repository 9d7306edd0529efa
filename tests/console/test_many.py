"""Ten thousand topics and ten thousand groups: the server searches and pages, and who asks gets a page."""

from collections.abc import Iterator

import pytest

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.shard.model import ConsumerGroup, Topic
from ternmq_registry.registry import Registry
from tests.support.console_site import Site
from tests.support.console_window import Window
from tests.support.stack import Stack

MANY = 10_000
PAGE = 25
PAGE_BYTES_MAX = 60_000
NAMES = [f"Many-{number:05}" for number in range(MANY)]

# Twenty thousand rows are written and sealed before.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    folder = tmp_path_factory.mktemp("crowded")
    (folder / "data").mkdir(mode=0o700)
    registry = Registry.open_sqlite(folder / "data" / "registry.db")
    registry.import_entries(
        [Topic(name=name, type=MessageType.NORMAL, queues=1) for name in NAMES],
        [ConsumerGroup(name=name) for name in NAMES],
    )
    registry.close()
    with Stack(folder) as running:
        yield Window(Site(running.grpc, running.http))


@pytest.mark.parametrize(("kind", "wanted"), [("topic", "Queues"), ("group", "Members that are connected")])
def test_a_page_of_many_is_a_page_and_the_last_is_found_and_opened(window: Window, kind: str, wanted: str) -> None:
    assert window.go(f"/console/{kind}s").column(0) == NAMES[:PAGE]
    assert len(window.source.encode()) < PAGE_BYTES_MAX
    assert window.follow("More").column(0) == NAMES[PAGE : 2 * PAGE]

    def search(text: str) -> Window:
        window.fill(f"Part of a {kind}'s name", text)
        return window.press("Find")

    assert search("many-0999").column(0) == NAMES[9990:]
    assert f"No {kind} has nobody in its name" in search("nobody").text
    assert wanted in search(f"{MANY - 1:05}").follow(NAMES[-1]).text
