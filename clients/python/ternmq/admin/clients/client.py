"""`Admin`, the asyncio client of the admin service: the calls that take several requests, besides `SingleCalls`."""

from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from typing import Protocol, TypeVar, Unpack

from ternmq.admin import audit, brokers, groups, messages, proxies, timers, users
from ternmq.admin.clients.single_calls import SingleCalls
from ternmq.admin.dead_letters import DeadLetterReader
from ternmq.admin.requests.call import AdminCall
from ternmq.admin.requests.checks import check_text
from ternmq.admin.requests.words import OpenState
from ternmq.clock_jumps import report_jump
from ternmq.messages.message_view import MessageView


class _Page(Protocol):
    @property
    def next_page(self) -> str: ...


PageT = TypeVar("PageT", bound=_Page)


class Admin(SingleCalls):
    """Administers topics, groups, brokers, users and stored messages of TernMQ; other servers answer `Unsupported`.

        async with Admin("127.0.0.1:8081") as admin:
            await admin.create_topic("orders", "fifo", queues=8)
            for progress in (await admin.describe_group("billing")).progress:
                print(progress.topic, progress.queue_id, progress.lag)

    A refusal of the server raises its error: `NotFound`, `BadRequest`, `Forbidden` and so on, with its code. Nothing is
    repeated. `request_timeout` is seconds for one call. A call to a server that can't be reached fails with
    `ConnectionFailed`; starting an `Admin` sends nothing.
    """

    async def update_group(self, name: str, **settings: Unpack[groups.GroupSettings]) -> groups.Group:
        """Change settings of a group; what is left out stays. Returns the changed group.

        This makes two calls: if two callers change a group at the same moment, one may undo the other's change.
        Connected clients learn of it within five minutes.
        """
        there = await self.describe_group(name)
        return await self._send_call(groups.update_group(there.group, settings))

    async def list_timers(self, *, topic: str = "") -> AsyncIterator[timers.WaitingTimer]:
        """List delayed messages that wait, by broker and time; those of one topic if it is named."""
        async for found in self._list_pages(lambda page: timers.list_timers(topic=topic, page=page)):
            for timer in found.timers:
                yield timer

    async def list_dead_letters(self, group: str, *, broker: str = "") -> AsyncIterator[MessageView]:
        """List the dead letters of a group, by broker and offset; they stay where they are.

        `NotFound` if the group does not exist. `resend_dead_letters` takes the `offset` and `broker` of a view.
        """
        await self.describe_group(group)
        letters = DeadLetterReader(self._check_open(), group, timeout_s=self._request_timeout_s)
        async for view in letters.read_letters(check_text("broker", broker)):
            yield view

    async def list_transactions(
        self, state: OpenState = "pending", *, topic: str = "", message_id: str = ""
    ) -> AsyncIterator[messages.OpenTransaction]:
        """List open transactions, the oldest first: those that wait for their producer, or that no producer ended; only
        of a topic or a message if one is named."""
        async for found in self._list_pages(
            lambda page: messages.list_transactions(state, topic=topic, message_id=message_id, page=page)
        ):
            for transaction in found.transactions:
                yield transaction

    async def list_clients(self, *, group: str = "", topic: str = "") -> proxies.ClientList:
        """List the clients that are connected to any proxy: members of the group, and those that publish or subscribe
        to the topic, if one is named."""
        found: list[proxies.ConnectedClient] = []
        silent: dict[str, None] = {}
        async for answer in self._list_pages(lambda page: proxies.list_clients(group=group, topic=topic, page=page)):
            found.extend(answer.clients)
            silent.update(dict.fromkeys(answer.silent))
        return proxies.ClientList(clients=tuple(found), silent=tuple(silent))

    async def advance_clock(self, by: timedelta | float) -> datetime:
        """Move the clock of a server with a test clock; `Forbidden` at every other. Returns the server's new time."""
        now = await self._send_call(brokers.advance_clock(by))
        report_jump(self._endpoints, by)
        return now

    async def list_users(self) -> AsyncIterator[users.User]:
        """List all users by name."""
        async for found in self._list_pages(users.list_users):
            for user in found.users:
                yield user

    async def list_audit_entries(
        self,
        *,
        user: str = "",
        call: str = "",
        resource: str = "",
        allowed: bool | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> AsyncIterator[audit.AuditEntry]:
        """List what the server that answers wrote to its audit log, the newest first; for super users.

        Filters: one user, one call (`DeleteTopic`), a part of the resource (`Topic:orders`), allowed or refused, not
        before `since`, and before `until`. `audit_page` also reports damaged lines.
        """
        async for found in self._list_pages(
            lambda page: audit.audit_page(
                page, user=user, call=call, resource=resource, allowed=allowed, since=since, until=until
            )
        ):
            for entry in found.entries:
                yield entry

    async def _list_pages(self, call: Callable[[str], AdminCall[PageT]]) -> AsyncIterator[PageT]:
        """Yield the pages of a list as they are needed; `call` creates the call of the page that a mark names."""
        mark = ""
        while True:
            page = await self._send_call(call(mark))
            yield page
            mark = page.next_page
            if not mark:
                return
