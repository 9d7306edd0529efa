"""The programs in `guarded/` with Apache RocketMQ: what they do there, other tests expect of TernMQ."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.interop.clients import in_each
from tests.interop.guarded.apache import GuardedApacheRocketMQ
from tests.interop.guarded.checks import (
    Place,
    check_each_refused,
    check_each_refuses_certificate,
    check_each_served,
    check_refused_now,
    check_round,
    group_of,
)
from tests.interop.guarded.running import LANGUAGES, Guard, build_all
from tests.support.guarded import dev_certificates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

TOPIC = "guarded"
SECRET = "the-secret-of-a-client"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dev_certificates(tmp_path_factory.mktemp("apache") / "certificates")


@pytest.fixture(scope="module")
def peer(certificates: Path) -> Iterator[GuardedApacheRocketMQ]:
    build_all()
    with GuardedApacheRocketMQ(certificates, super_user=("root", "the-secret-of-root")) as running:
        running.create_topic(TOPIC)
        running.create_groups(map(group_of, LANGUAGES))
        running.create_user("client", SECRET, f"Topic:{TOPIC}", "Group:*")
        yield running


@pytest.fixture
def place(peer: GuardedApacheRocketMQ, tmp_path: Path) -> Place:
    return Place(endpoint=peer.endpoint, topic=TOPIC, home=tmp_path)


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
async def test_right_credentials_are_served_with_tls_and_without(tls: bool, place: Place, certificates: Path) -> None:
    guard = Guard(ca=certificates / "ca.pem" if tls else None, access_key="client", secret=SECRET)
    await check_each_served(place, guard)


@pytest.mark.parametrize("guard", [Guard(access_key="client", secret="another-secret"), Guard()], ids=["wrong", "none"])
async def test_others_are_told_that_they_may_not(guard: Guard, place: Place) -> None:
    await check_each_refused(place, guard)


async def test_clients_that_check_certificates_refuse_one_of_an_unknown_authority(place: Place, tmp_path: Path) -> None:
    other = await asyncio.to_thread(dev_certificates, tmp_path / "other")
    await check_each_refuses_certificate(place, Guard(ca=other / "ca.pem", access_key="client", secret=SECRET))


async def test_a_user_that_is_disabled_is_served_no_more(peer: GuardedApacheRocketMQ, place: Place) -> None:
    await asyncio.to_thread(peer.create_user, "leaver", SECRET, f"Topic:{TOPIC}", "Group:*")
    guard = Guard(access_key="leaver", secret=SECRET)
    served, disabled = asyncio.Barrier(len(LANGUAGES) + 1), asyncio.Event()

    async def check(language: str) -> None:
        async with place.client(language, guard) as client:
            await check_round(client, f"before-{language}")
            await served.wait()
            await disabled.wait()
            await check_refused_now(client)

    async def disable() -> None:
        await served.wait()
        await asyncio.to_thread(peer.disable_user, "leaver")
        disabled.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(in_each(LANGUAGES, check))
        group.create_task(disable())
