"""Ten thousand topics and ten thousand groups: the server searches and pages, and a browser gets a page."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from ternmq_common.model import Group, Topic
from ternmq_protos.v2 import definition_pb2
from ternmq_registry.registry import Registry
from tests.console.browsing import Visit, visit
from tests.support.stack import ServerProcess

MANY = 10_000
PAGE = 25
PAGE_BYTES_MAX = 60_000

# Twenty thousand rows are written and sealed before.
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("many")]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("crowded")
    data = folder / "data"
    data.mkdir(mode=0o700)
    registry = Registry.sqlite(data / "registry.db")
    names = [f"Many-{number:05}" for number in range(MANY)]
    registry.take_over(
        [Topic(name=name, type=definition_pb2.NORMAL, queues=1) for name in names], [Group(name=name) for name in names]
    )
    registry.close()
    with ServerProcess(folder, "up", "--data-dir", str(data), addresses=("grpc", "http")) as running:
        yield running


@pytest.fixture
def window(browser: Browser, crowded: ServerProcess) -> Iterator[Visit]:
    with visit(browser, crowded.addresses["http"]) as visiting:
        yield visiting


@pytest.mark.parametrize(("path", "kind"), [("/console/topics", "topic"), ("/console/groups", "group")])
def test_a_page_of_many_is_a_page(window: Visit, path: str, kind: str) -> None:
    sizes: list[int] = []
    window.page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    window.go(path)
    rows = window.page.locator("tbody th")
    expect(rows).to_have_text([f"Many-{number:05}" for number in range(PAGE)])
    assert sizes[0] < PAGE_BYTES_MAX
    window.page.get_by_role("link", name="More").click()
    expect(rows).to_have_text([f"Many-{number:05}" for number in range(PAGE, 2 * PAGE)])
    window.page.get_by_label(f"Part of a {kind}'s name").press_sequentially("many-0999")
    expect(rows).to_have_text([f"Many-0999{number}" for number in range(10)])
    window.page.get_by_label(f"Part of a {kind}'s name").fill("nobody")
    expect(window.page.locator("#list")).to_contain_text(f"No {kind} has nobody in its name")


def test_the_last_of_many_is_found_and_opened(window: Visit) -> None:
    for path, wanted in (("topics", "Queues"), ("groups", "Members that are connected")):
        window.go(f"/console/{path}?search={MANY - 1:05}")
        window.page.get_by_role("link", name=f"Many-{MANY - 1:05}").click()
        expect(window.page.locator("main")).to_contain_text(wanted)
