"""The official clients of five languages, unmodified, and a server with TLS and access control: who is let in, who is
not, and what those are told.

What they check    Go and Java take any certificate. The others get the CA by a variable: `guarded/running.py`, ROOTS.
What they report   `guarded/checks.py`; that they do the same with Apache RocketMQ says another test.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.interop.clients import in_each
from tests.interop.guarded.checks import (
    Place,
    check_each_refused,
    check_each_refuses_certificate,
    check_each_served,
    check_refused_now,
    check_refused_start,
    check_round,
    first_failure,
    group_of,
)
from tests.interop.guarded.running import LANGUAGES, Guard, build_all
from tests.interop.processes import DEADLINE_S
from tests.support.guarded import GuardedStack, dev_certificates
from tests.support.until import until_answered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ternmq.blocking import Admin

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

TOPIC = "guarded"
SECRET = "the-secret-of-a-client"
TWO_DAYS_S = 2 * 24 * 3600


@pytest.fixture(scope="module", params=["required", pytest.param("optional", marks=pytest.mark.long)])
def tls(request: pytest.FixtureRequest) -> str:
    """Whether the server takes nothing but TLS."""
    return str(request.param)


@pytest.fixture(scope="module")
def server(tls: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedStack]:
    build_all()
    folder = tmp_path_factory.mktemp(f"tls-{tls}")
    certificates = dev_certificates(folder / "certificates")
    with GuardedStack(folder, certificates=certificates, tls=tls) as server, server.admin() as admin:
        admin.create_topic(TOPIC)
        for language in LANGUAGES:
            admin.create_group(group_of(language))
        create_user(admin, "client")
        yield server


def create_user(admin: Admin, name: str) -> None:
    """One who may send and receive, and nothing else."""
    admin.create_user(name, SECRET)
    admin.put_policy(name, f"Topic:{TOPIC}", "Pub,Sub")
    admin.put_policy(name, "Group:group-*", "Sub")


@pytest.fixture
def place(server: GuardedStack, tmp_path: Path) -> Place:
    return Place(endpoint=server.grpc, topic=TOPIC, home=tmp_path)


def guard_of(server: GuardedStack, name: str = "client", secret: str = SECRET) -> Guard:
    return Guard(ca=server.ca, access_key=name, secret=secret)


async def test_right_credentials_over_tls_are_served(server: GuardedStack, place: Place) -> None:
    await check_each_served(place, guard_of(server))


async def test_dates_in_local_time_that_say_utc_are_taken_for_what_they_are(server: GuardedStack, place: Place) -> None:
    guard = replace(guard_of(server), zone="Asia/Kathmandu")  # three quarters of an hour off the hour
    await check_each_served(place, guard)


async def test_plain_text_is_served_at_the_same_port_only_if_tls_is_optional(tls: str, place: Place) -> None:
    plain = Guard(access_key="client", secret=SECRET)

    async def check(language: str) -> None:
        async with place.client(language, plain) as client:
            if tls == "optional":
                await check_round(client, f"plain-from-{language}")
            else:
                step, code = await first_failure(client)
                assert step, "it was served"
                assert code == ""  # nobody read what it sent, so nobody said that it may not

    await in_each(LANGUAGES, check)


@pytest.mark.parametrize(
    ("name", "secret"),
    [("client", "another-secret-than-its-own"), ("nobody", SECRET), ("", "")],
    ids=["wrong-secret", "unknown", "missing"],
)
async def test_others_are_told_that_they_may_not(name: str, secret: str, server: GuardedStack, place: Place) -> None:
    await check_each_refused(place, guard_of(server, name, secret))


async def test_clients_that_check_certificates_refuse_one_of_an_unknown_authority(place: Place, tmp_path: Path) -> None:
    other = await asyncio.to_thread(dev_certificates, tmp_path / "other")
    await check_each_refuses_certificate(place, Guard(ca=other / "ca.pem", access_key="client", secret=SECRET))


@pytest.mark.parametrize(
    "how", ["disabled", *(pytest.param(how, marks=pytest.mark.long) for how in ("deleted", "rotated"))]
)
async def test_a_user_that_was_served_is_refused_once_it_is_revoked(
    how: str, server: GuardedStack, place: Place
) -> None:
    name = f"leaver-{how}"
    served, revoked = asyncio.Barrier(len(LANGUAGES) + 1), asyncio.Event()

    async def check(language: str) -> None:
        async with place.client(language, guard_of(server, name)) as client:
            await check_round(client, f"before-{how}-{language}")
            await served.wait()
            await revoked.wait()
            await check_refused_now(client)

    def revoke(admin: Admin) -> None:
        match how:
            case "disabled":
                admin.update_user(name, enabled=False)
            case "deleted":
                admin.delete_user(name)
            case _:
                admin.rotate_secret(name, "the-next-secret-of-a-leaver", overlap=timedelta(0))

    with server.admin() as admin:
        create_user(admin, name)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(in_each(LANGUAGES, check))
            async with asyncio.timeout(2 * DEADLINE_S):
                await served.wait()
                await until_answered(lambda: asyncio.to_thread(members, admin), answer=len(LANGUAGES))
                await asyncio.to_thread(revoke, admin)
                await until_answered(lambda: asyncio.to_thread(members, admin), answer=0)
            revoked.set()


def members(admin: Admin) -> int:
    """How many consumers the server has a stream to."""
    return sum(len(admin.describe_group(group_of(language)).members) for language in LANGUAGES)


async def test_a_date_of_two_days_ago_is_refused_whoever_signed_it(tmp_path: Path) -> None:
    build_all()
    certificates = await asyncio.to_thread(dev_certificates, tmp_path / "certificates")
    with GuardedStack(tmp_path / "server", certificates=certificates) as server:
        with server.admin() as admin:
            admin.create_topic(TOPIC)
            create_user(admin, "client")
        # The clients' clocks can't be changed, that of the server's process can.
        server.terminate()
        server.clock_ahead_s = TWO_DAYS_S
        server.start()
        place = Place(endpoint=server.grpc, topic=TOPIC, home=tmp_path)

        async def check(language: str) -> None:
            async with place.client(language, guard_of(server)) as client:
                await check_refused_start(language, client)

        await in_each(LANGUAGES, check)
