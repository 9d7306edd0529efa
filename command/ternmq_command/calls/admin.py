"""The command's client of the admin service, with the calls of `ternmq.admin`; its modules are imported when needed."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Unpack, cast

from ternmq.admin.call import SERVICE
from ternmq_command.calls.service_calls import ServiceCalls

if TYPE_CHECKING:
    from ternmq.admin.audit import AuditPage
    from ternmq.admin.brokers import Broker, BrokerRemaining, RemovedBroker, ServerInfo
    from ternmq.admin.groups import Group, GroupDescription, GroupSettings
    from ternmq.admin.history import History
    from ternmq.admin.message_status import MessageDescription
    from ternmq.admin.messages import OpenTransaction, ResentDeadLetter, TransactionDescription
    from ternmq.admin.quotas import Quota
    from ternmq.admin.timers import WaitingTimer
    from ternmq.admin.topics import PurgedQueue, Topic, TopicDescription, TopicSettings
    from ternmq.admin.users import User
    from ternmq.admin.words import OpenState, Permission, Resolution, TopicType
    from ternmq.message_view import MessageView


class AdminClient(ServiceCalls):
    """A client of the admin service at an endpoint; raises `CallRefused` and `ServerUnreachable`.

    `send_call` makes any call of `ternmq.admin`; the methods are calls that several commands need.
    """

    service = SERVICE

    def create_topic(
        self,
        name: str,
        type_name: str,
        queues: int | None = None,
        brokers: Iterable[str] = (),
        **settings: "Unpack[TopicSettings]",
    ) -> bool:
        """Create a topic; False if it exists with the same settings. Missing settings get the server's defaults."""
        from ternmq.admin import topics

        return self.send_call(
            topics.create_topic(name, cast("TopicType", type_name), queues or None, brokers=brokers, **settings)
        )

    def list_topics(self, search: str = "") -> "list[Topic]":
        from ternmq.admin import topics

        return self.send_call(topics.list_all(search=search))

    def topic_names(self) -> list[str]:
        return [topic.name for topic in self.list_topics()]

    def describe_topic(self, name: str, *, contents: bool = False) -> "TopicDescription":
        """Describe a topic, with `contents` also by figures that cost the server more."""
        from ternmq.admin import topics

        return self.send_call(topics.describe_topic(name, contents=contents))

    def delete_topic(self, name: str) -> None:
        from ternmq.admin import topics

        self.send_call(topics.delete_topic(name))

    def purge_topic(self, name: str, before: datetime | None, *, dry_run: bool) -> "list[PurgedQueue]":
        """Remove the messages stored before that time, all without one; return what each queue held and holds now."""
        from ternmq.admin import topics

        return self.send_call(topics.purge_topic(name, before=before, dry_run=dry_run))

    def create_group(self, name: str, **settings: "Unpack[GroupSettings]") -> bool:
        """Create a group; False if it exists with the same settings. Missing settings get the server's defaults."""
        from ternmq.admin import groups

        return self.send_call(groups.create_group(name, settings))

    def list_groups(self, search: str = "") -> "list[Group]":
        from ternmq.admin import groups

        return self.send_call(groups.list_all(search=search))

    def group_names(self) -> list[str]:
        return [group.name for group in self.list_groups()]

    def describe_group(self, name: str) -> "GroupDescription":
        from ternmq.admin import groups

        return self.send_call(groups.describe_group(name))

    def delete_group(self, name: str, *, with_dead_letters: bool = False) -> None:
        from ternmq.admin import groups

        self.send_call(groups.delete_group(name, with_dead_letters=with_dead_letters))

    def query_messages(self, topic: str, key: str, *, limit: int) -> "list[MessageView]":
        """Return the messages with this key or message id, the newest first."""
        from ternmq.admin import messages

        return self.send_call(messages.find_messages(topic, key, limit=limit))

    def resend_dead_letters(
        self, group: str, broker: str, queue_offsets: Iterable[int], *, to_topic: str
    ) -> "list[ResentDeadLetter]":
        from ternmq.admin import messages

        return self.send_call(messages.resend_dead_letters(group, queue_offsets, broker=broker, to_topic=to_topic))

    def describe_message(self, topic: str, queue_id: int, offset: int, broker: str) -> "MessageDescription":
        """Describe the message at an offset, and its state in each group."""
        from ternmq.admin import message_status

        return self.send_call(message_status.describe_message(topic, queue_id, offset, broker=broker))

    def list_timers(self, *, topic: str) -> "Iterator[WaitingTimer]":
        """Yield the waiting timed messages, of one topic if it is given; pages are read as they are needed."""
        from ternmq.admin import timers

        page = ""
        while True:
            found = self.send_call(timers.list_timers(topic=topic, page=page))
            yield from found.timers
            page = found.next_page
            if not page:
                return

    def get_history(self, *, topic: str, group: str) -> "History":
        from ternmq.admin import history

        return self.send_call(history.get_history(topic=topic, group=group))

    def list_transactions(
        self, state_name: str, *, topic: str = "", message_id: str = ""
    ) -> "Iterator[OpenTransaction]":
        """Yield the transactions that are `pending` or `discarded`, of one topic or message if it is given.

        Pages are read as they are needed.
        """
        from ternmq.admin import messages

        page = ""
        while True:
            found = self.send_call(
                messages.list_transactions(cast("OpenState", state_name), topic=topic, message_id=message_id, page=page)
            )
            yield from found.transactions
            page = found.next_page
            if not page:
                return

    def describe_transaction(self, transaction_id: str) -> "TransactionDescription":
        from ternmq.admin import messages

        return self.send_call(messages.describe_transaction(transaction_id))

    def resolve_transaction(self, transaction_id: str, resolution_name: str) -> "OpenTransaction":
        """Commit or roll back a transaction (`commit`, `rollback`), and return its new state."""
        from ternmq.admin import messages

        return self.send_call(messages.resolve_transaction(transaction_id, cast("Resolution", resolution_name)))

    def audit_pages(
        self,
        *,
        user: str,
        call: str,
        resource: str,
        allowed: bool | None,
        since: datetime | None,
        until: datetime | None,
    ) -> "Iterator[AuditPage]":
        """Yield pages of the audit log, the newest first, as they are needed."""
        from ternmq.admin import audit

        page = ""
        while True:
            found = self.send_call(
                audit.list_page(
                    page, user=user, call=call, resource=resource, allowed=allowed, since=since, until=until
                )
            )
            yield found
            page = found.next_page
            if not page:
                return

    def list_brokers(self) -> "list[Broker]":
        from ternmq.admin import brokers

        return self.send_call(brokers.list_all())

    def update_broker(self, name: str, *, permission_name: str | None = None, draining: bool | None = None) -> "Broker":
        """Change a broker, and return its new state; None leaves a setting as it is."""
        from ternmq.admin import brokers

        permission = cast("Permission | None", permission_name)
        return self.send_call(brokers.update_broker(name, permission=permission, draining=draining))

    def remove_broker(self, name: str, *, force: bool) -> "RemovedBroker":
        from ternmq.admin import brokers

        return self.send_call(brokers.remove_broker(name, force=force))

    def describe_remaining(self, name: str) -> "BrokerRemaining":
        """Return what would be lost with the broker."""
        from ternmq.admin import brokers

        return self.send_call(brokers.broker_remaining(name))

    def list_quotas(self) -> "list[Quota]":
        from ternmq.admin import quotas

        return list(self.send_call(quotas.list_all()).quotas)

    def list_users(self) -> "Iterator[User]":
        """Yield all users in the order of their names; pages are read as they are needed."""
        from ternmq.admin import users

        page = ""
        while True:
            found = self.send_call(users.list_users(page))
            yield from found.users
            page = found.next_page
            if not page:
                return

    def describe_user(self, name: str) -> "User":
        from ternmq.admin import users

        return self.send_call(users.describe_user(name))

    def advance_clock(self, by: timedelta) -> datetime:
        from ternmq.admin import brokers

        return self.send_call(brokers.advance_clock(by))

    def server_info(self) -> "ServerInfo":
        from ternmq.admin import brokers

        return self.send_call(brokers.server_info())
