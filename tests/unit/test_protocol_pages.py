"""The pages of docs/protocol against the code: the names on them are names of the wire or of settings, and the limits
are those in force."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor

from ternmq import Message
from ternmq_common.limits import HOUR_MS, KIB, MIB, MessageLimits, RequestLimits
from ternmq_common.names import RESERVED_GROUP_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from ternmq_common.resources.setting import settings_of
from ternmq_common.server_settings import BrokerServerSettings, ProxySettings, ServerSettings
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import admin_pb2 as published_pb2
from ternmq_protos.v2 import definition_pb2, service_pb2
from ternmq_rpc.grpc_http2.messages import GrpcStatus

FOLDER = Path(__file__).parents[2] / "docs" / "protocol"
PAGES = {page.stem: page.read_text() for page in sorted(FOLDER.glob("*.md"))}
FILES = (definition_pb2.DESCRIPTOR, service_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR, published_pb2.DESCRIPTOR)
QUOTED = re.compile(r"`([^`]+)`")
CODE = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")
SNAKE = re.compile(r"(?:expert\.)?[a-z0-9]+(?:_[a-z0-9]+)+")
# Of RocketMQ's own vocabulary, and names of our files.
OTHERS = {"machine_room", "message_checks", "handle_form", "MACHINE_ROOM", "MACHINE_ROOM_NEARBY"}


def _messages() -> Iterator[Descriptor]:
    waiting = [message for file in FILES for message in file.message_types_by_name.values()]
    while waiting:
        message = waiting.pop()
        waiting += message.nested_types
        yield message


def _fields() -> set[str]:
    return {name for message in _messages() for name in (*message.fields_by_name, *message.oneofs_by_name)}


def _settings() -> set[str]:
    kinds = (ServerSettings, BrokerServerSettings, ProxySettings)
    return {each.key for kind in kinds for each in settings_of(kind).values()}


def _enum_values() -> set[str]:
    return {name for file in FILES for kind in file.enum_types_by_name.values() for name in kind.values_by_name}


@pytest.mark.parametrize("page", PAGES)
def test_the_codes_on_a_page_are_those_of_the_protocol(page: str) -> None:
    named = set(CODE.findall(QUOTED.sub("", PAGES[page])))
    assert named - _enum_values() - {status.name for status in GrpcStatus} == set()


@pytest.mark.parametrize("page", PAGES)
def test_the_fields_and_settings_on_a_page_are_there(page: str) -> None:
    named = {name for name in QUOTED.findall(PAGES[page]) if SNAKE.fullmatch(name)}
    assert named - _fields() - _settings() - OTHERS == set()


def test_every_call_is_on_a_page() -> None:
    together = "".join(PAGES.values())
    messaging = service_pb2.DESCRIPTOR.services_by_name["MessagingService"].methods_by_name
    assert {name for name in messaging if f"`{name}`" not in together} == set()
    admin = [
        name
        for file in (admin_pb2, published_pb2)
        for name in file.DESCRIPTOR.services_by_name["Admin"].methods_by_name
    ]
    said, rights = PAGES["admin"].split("## 11. Rights")
    for part in (said, rights):
        assert {name for name in admin if not re.search(rf"\b{name}\b", part)} == set()


def test_the_reserved_names_are_on_the_page() -> None:
    [row] = [line for line in PAGES["overview"].splitlines() if line.startswith("| reserved |")]
    topics, groups = row.split(" | ")[1:3]
    shown = set(QUOTED.findall(topics)) - {"ROCKSDB_", SYSTEM_TOPIC_PREFIX}
    assert shown | {name.replace("SYS_TRANS", "SYS_ROCKSDB_TRANS") for name in shown} >= SYSTEM_TOPICS >= shown
    assert f"`{SYSTEM_TOPIC_PREFIX}`" in topics
    assert QUOTED.findall(groups) == [RESERVED_GROUP_PREFIX]


def _rows(page: str, heading: str) -> dict[str, str]:
    """The second column of the table under a heading, by the first."""
    section = re.split(rf"^## \d+\. {heading}$", PAGES[page], flags=re.MULTILINE)[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {cells[0]: cells[1] for cells in rows[2:]}


def test_the_limits_of_a_message_are_those_of_the_page() -> None:
    limits = MessageLimits()
    assert {name: limit.split(" (")[0] for name, limit in _rows("sending", "Limits").items()} == {
        "body": f"{limits.body_bytes_max // MIB} MiB",
        "user properties": f"{limits.properties_max}",
        "keys and values of user properties, tag and keys together": f"{limits.properties_bytes_max // KIB} KiB",
        "everything that is stored except the body": f"{limits.stored_properties_bytes_max:,} bytes",
        "message group": f"{limits.message_group_bytes_max} bytes",
        "delivery time": f"{limits.delay_max_ms // HOUR_MS} h ahead",
        "recovery duration of a transaction": f"{limits.transaction_recovery_max_ms // HOUR_MS} h",
        "open transactions of a broker": f"{ServerSettings().transactions_max:,}",
    }


def test_the_client_names_the_delay_that_a_server_takes_by_default() -> None:
    assert f"({MessageLimits().delay_max_ms // HOUR_MS} hours by" in (Message.__doc__ or "")


def test_the_limits_of_a_request_are_those_of_the_page() -> None:
    settings = ServerSettings()
    each, least = RequestLimits(entries_max=10_000).fields_max // 10_000, RequestLimits(entries_max=1).fields_max
    assert {name: limit.split(" (")[0] for name, limit in _rows("overview", "Limits of a request").items()} == {
        "bytes of a request": f"{settings.request_bytes_max // MIB} MiB",
        "entries of each repeated field": f"{settings.request_entries_max:,}",
        "fields altogether": f"{each} for each entry, at least {least:,}",
        "concurrent calls of a connection": f"{settings.connection_streams_max:,}",
    }
