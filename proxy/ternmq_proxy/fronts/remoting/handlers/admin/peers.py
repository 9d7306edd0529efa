"""The clients of this front at all proxies: lists of them, and requests to them.

Each proxy knows its own, and asks the others (`ask_proxies`). Several connections of one client are one member.
"""

import base64
import functools
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ternmq_proxy.fronts.remoting.call import ClientConnection
from ternmq_proxy.peers.asking import ask_others
from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.connection import ConnectionGone

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_proxy.processors.group_members import GroupMember, GroupMembers
    from ternmq_proxy.services import Services

CONSUMERS, PRODUCERS = "remoting-consumers", "remoting-producers"
"""The questions about members; the argument is a group, or for producers nothing, for all of them."""
RELAY, PUSH = "remoting-relay", "remoting-push"
"""The questions by which others send requests to clients here: to one, or to all of a group."""
CLIENT_TIMEOUT_S = 10.0


class MemberReport(NamedTuple):
    """A member as its proxy knows it, with names of the protocol; the last three are empty for a producer."""

    client_id: str
    address: str
    language: str
    version: str
    consume_type: str = ""
    message_model: str = ""
    consume_from: str = ""


class SubscriptionReport(NamedTuple):
    """A topic that a group subscribes to."""

    topic: str
    expression: str
    is_sql: bool
    version: int


class ConsumersReport(NamedTuple):
    """The members of a consumer group, and what it subscribes to."""

    members: list[MemberReport]
    subscriptions: list[SubscriptionReport]


class _ClientRequest(NamedTuple):
    """A request to the client of a group, or, if `client_id` is empty, to all of its clients."""

    group: str
    client_id: str
    code: int
    fields: dict[str, str]
    body: str


class _ClientAnswer(NamedTuple):
    """The client's answer; None: it is not connected here."""

    code: int | None
    remark: str = ""
    body: str = ""


_consumers_decoder = msgspec.json.Decoder(ConsumersReport)
_producers_decoder = msgspec.json.Decoder(dict[str, list[MemberReport]])
_request_decoder = msgspec.json.Decoder(_ClientRequest)
_answer_decoder = msgspec.json.Decoder(_ClientAnswer)
_count_decoder = msgspec.json.Decoder(int)


def answer_peers(members: "GroupMembers", services: "Services") -> None:
    """Have this process answer other proxies."""
    services.process.front_answers.update(
        {
            CONSUMERS: functools.partial(_answer_consumers, members),
            PRODUCERS: functools.partial(_answer_producers, members),
            RELAY: functools.partial(_answer_relay, members),
            PUSH: functools.partial(_answer_push, members),
        }
    )


# --- lists of clients


async def find_consumers(group: str, members: "GroupMembers", services: "Services") -> ConsumersReport:
    """Return the members of a consumer group at all proxies, by their ids."""
    reports, _ = await ask_others(_consumers_decoder.decode, CONSUMERS, group, services)
    found: dict[str, MemberReport] = {}
    subscriptions: dict[str, SubscriptionReport] = {}
    for report in (*reports, _report_consumers(group, members)):
        found.update((each.client_id, each) for each in report.members)
        for each in report.subscriptions:
            known = subscriptions.get(each.topic)
            if known is None or each.version >= known.version:
                subscriptions[each.topic] = each
    return ConsumersReport(
        [found[each] for each in sorted(found)], [subscriptions[each] for each in sorted(subscriptions)]
    )


async def find_producers(group: str, members: "GroupMembers", services: "Services") -> dict[str, list[MemberReport]]:
    """Return the members of the producer group, or of all if it is empty, at all proxies, by group."""
    reports, _ = await ask_others(_producers_decoder.decode, PRODUCERS, group, services)
    found: dict[str, dict[str, MemberReport]] = {}
    for report in (*reports, _report_producers(group, members)):
        for name, listed in report.items():
            found.setdefault(name, {}).update((each.client_id, each) for each in listed)
    return {name: [its[each] for each in sorted(its)] for name, its in sorted(found.items())}


def _report_consumers(group: str, members: "GroupMembers") -> ConsumersReport:
    subscriptions = members.subscriptions_of(group) or {}
    return ConsumersReport(
        [_report_member(each, group) for each in members.consumers_of(group)],
        [
            SubscriptionReport(each.topic, each.filter.expression, each.filter.is_sql, each.version)
            for each in subscriptions.values()
        ],
    )


def _report_producers(group: str, members: "GroupMembers") -> dict[str, list[MemberReport]]:
    groups = [group] if group else members.producer_groups()
    return {name: found for name in groups if (found := [_report_member(each) for each in members.producers_of(name)])}


def _report_member(member: "GroupMember", group: str = "") -> MemberReport:
    agent = member.agent
    known = member.consumers.get(group)
    if known is None:
        return MemberReport(member.client_id, member.address, agent.language, agent.version)
    return MemberReport(
        member.client_id,
        member.address,
        agent.language,
        agent.version,
        known.consume_type,
        known.message_model,
        known.consume_from,
    )


async def _answer_consumers(members: "GroupMembers", argument: str) -> bytes:
    return msgspec.json.encode(_report_consumers(argument, members))


async def _answer_producers(members: "GroupMembers", argument: str) -> bytes:
    return msgspec.json.encode(_report_producers(argument, members))


# --- requests to them


async def call_member(
    group: str, client_id: str, command: Command, members: "GroupMembers", services: "Services"
) -> Command | None:
    """Send a request to a client of the group, wherever it is connected, and return its answer; None if no proxy has
    it. ConnectionGone if it is here and does not answer."""
    request = _write_request(group, client_id, command)
    answer = await _call_here(request, members)
    if answer.code is None:
        reports, _ = await ask_others(_answer_decoder.decode, RELAY, _encode_request(request), services)
        answer = next((each for each in reports if each.code is not None), answer)
    if answer.code is None:
        return None
    return Command(answer.code, remark=answer.remark, body=base64.b64decode(answer.body))


async def push_to_group(group: str, command: Command, members: "GroupMembers", services: "Services") -> int:
    """Send a request that wants no answer to all clients of the group; return how many there are."""
    request = _write_request(group, "", command)
    reports, _ = await ask_others(_count_decoder.decode, PUSH, _encode_request(request), services)
    return sum(reports) + _push_here(request, members)


def _write_request(group: str, client_id: str, command: Command) -> _ClientRequest:
    return _ClientRequest(
        group, client_id, int(command.code), dict(command.fields), base64.b64encode(command.body).decode()
    )


def _encode_request(request: _ClientRequest) -> str:
    return msgspec.json.encode(request).decode()


def _read_request(request: _ClientRequest) -> Command:
    return Command(request.code, fields=request.fields, body=base64.b64decode(request.body))


async def _call_here(request: _ClientRequest, members: "GroupMembers") -> _ClientAnswer:
    for channel in _channels(members.consumers_of(request.group), request.client_id):
        answer = await channel.connection.call_client(_read_request(request), CLIENT_TIMEOUT_S)
        return _ClientAnswer(int(answer.code), answer.remark, base64.b64encode(answer.body).decode())
    return _ClientAnswer(None)


def _push_here(request: _ClientRequest, members: "GroupMembers") -> int:
    channels = _channels(members.consumers_of(request.group), "")
    for channel in channels:
        channel.connection.send_oneway(_read_request(request))
    return len(channels)


def _channels(members: "Iterable[GroupMember]", client_id: str) -> list[ClientConnection]:
    """Return the connections of that client, or of all."""
    return [
        member.channel
        for member in members
        if client_id in ("", member.client_id) and isinstance(member.channel, ClientConnection)
    ]


async def _answer_relay(members: "GroupMembers", argument: str) -> bytes:
    try:
        answer = await _call_here(_request_decoder.decode(argument), members)
    except ConnectionGone:
        answer = _ClientAnswer(None)
    return msgspec.json.encode(answer)


async def _answer_push(members: "GroupMembers", argument: str) -> bytes:
    return msgspec.json.encode(_push_here(_request_decoder.decode(argument), members))
