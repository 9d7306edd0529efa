"""Clients of RocketMQ 4 and a server with access control and TLS: who is let in, and what others are told."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.interop.remoting.running import Remoting, numbered, only_once, serve_remoting
from tests.support.guarded import GuardedStack, dev_certificates

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

SECRET = "the-secret-of-a-client"
CLIENTS = ("java4", "java5", "go4", "node4", "python4")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remoting]:
    """A server with access control; user `client` may use topic `guarded` and groups that begin with `group-`."""
    folder = tmp_path_factory.mktemp("guarded")
    certificates = dev_certificates(folder / "certificates")
    stack = GuardedStack(folder, certificates=certificates, tls="optional")
    serve_remoting(stack)
    with ExitStack() as started:
        started.enter_context(stack)
        admin = started.enter_context(stack.admin())
        admin.create_topic("guarded")
        admin.create_topic("foreign")
        for client in CLIENTS:
            admin.create_group(f"group-{client}")
        admin.create_user("client", SECRET)
        admin.put_policy("client", "Topic:guarded", "Pub,Sub")
        admin.put_policy("client", "Group:group-*", "Sub")
        yield Remoting(stack, folder)


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_with_its_key_sends_and_is_pushed_to(client: str, guarded: Remoting) -> None:
    keys = {"access_key": "client", "secret_key": SECRET}
    async with guarded.driver(client) as driver:
        await driver.run("producer", name="p", group="group-producers", **keys)
        await driver.run("send", name="p", topic="guarded", body=numbered(10, f"{client}-"), property_color="ü")
        await driver.run("push", name="c", group=f"group-{client}", topic="guarded", **keys)
        own = only_once(10, f"{client}-")
        await driver.until(lambda _: own <= driver.bodies("c"), "what was sent")


@pytest.mark.parametrize("client", ["java4", "java5"])
@pytest.mark.parametrize(
    ("key", "secret", "topic"),
    [("", "", "guarded"), ("nobody", SECRET, "guarded"), ("client", "wrong", "guarded"), ("client", SECRET, "foreign")],
)
async def test_others_send_nothing(client: str, key: str, secret: str, topic: str, guarded: Remoting) -> None:
    async with guarded.driver(client) as driver:
        await driver.run("producer", name="p", group="group-producers", access_key=key, secret_key=secret)
        refused = await driver.attempt("send", name="p", topic=topic, body="refused")
    # The route is refused already (16), and this is how the client puts it.
    assert f"No route info of this topic: {topic}" in refused["error"]


@pytest.mark.parametrize("client", ["java4", "java5"])
async def test_tls_and_plain_text_are_served_at_one_port(client: str, guarded: Remoting) -> None:
    keys = {"access_key": "client", "secret_key": SECRET}
    bodies = Counter[str]()
    # The switch of a producer alone does not reach all connections of a process: one for each kind.
    for name, options in (("plain", ()), ("encrypted", ("-Dtls.enable=true",))):
        async with guarded.driver(client, options=options) as driver:
            await driver.run("producer", name="p", group="group-producers", **keys)
            await driver.run("send", name="p", topic="guarded", body=f"{client}-{name}")
            await driver.run("push", name="c", group=f"group-{client}", topic="guarded", **keys)
            await driver.until(lambda _, name=name: f"{client}-{name}" in driver.bodies("c"), name)  # type: ignore[misc]
            bodies += driver.bodies("c")
            await driver.run("stop", name="c")
    assert bodies[f"{client}-encrypted"] == 1
