"""Dead letters: listed, shown, exported and resent, by every way of selecting them."""

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from ternmq_command.calls.admin import AdminClient
from ternmq_command.calls.messaging import MessagingClient
from ternmq_command.dlq.dead_letters import DeadLetters, LetterSelection
from ternmq_command.message.topic_messages import FOUND_MAX
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call
from tests.unit.command.messaging_server import dead_letter

TOPIC = "%DLQ%billing"
T0_MS = 1_785_585_600_000  # 2026-08-01T12:00:00Z; one letter each minute


@pytest.fixture(autouse=True)
def letters(call_server: Call, server: AdminServer) -> None:
    """Offsets 0 to 9; the keys are k0, k1, k0, ..."""
    call_server("group", "create", "billing")
    server.memory.make(TOPIC, 1)
    for number in range(10):
        put(server, number, keys=(f"k{number % 2}",))


def put(server: AdminServer, number: int, *, keys: tuple[str, ...] = (), body: bytes | None = None) -> None:
    letter = dead_letter(number, keys=keys, body=body)
    server.memory.put(TOPIC, 0, letter, stored_ms=T0_MS + number * 60_000)


def lines(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def offsets(result: Result) -> list[int]:
    return [record["offset"] for record in lines(result)]


def test_letters_are_listed_with_where_they_came_from(call_server: Call) -> None:
    assert lines(call_server("dlq", "list", "billing", "--json"))[1] == {
        "offset": 1,
        "message_id": "id-1",
        "origin_topic": "orders",
        "keys": ["k1"],
        "tag": "paid",
        "attempts": 3,
        "reason": "attempts",
        "stored": "2026-08-01T12:01:00.000Z",
        "body_bytes": 6,
    }
    people = call_server("dlq", "list", "billing").stdout.splitlines()
    assert people[0].split("  ")[0] == "OFFSET"
    assert people[2].split() == ["1", "id-1", "orders", "k1", "paid", "3", "attempts", "2026-08-01T12:01:00.000Z", "6"]
    assert len(people) == 11


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), list(range(10))),
        (("--max", "3"), [0, 1, 2]),
        (("--since", "2026-08-01T12:07:30Z"), [8, 9]),
        (("--until", "2026-08-01T12:02:00Z"), [0, 1]),
        (("--since", "2026-08-01T12:03:00Z", "--until", "2026-08-01T12:05:00Z"), [3, 4]),
        (("--key", "k1"), [1, 3, 5, 7, 9]),
        (("--key", "k1", "--max", "2"), [1, 3]),
        (("--key", "k1", "--since", "2026-08-01T12:04:00Z", "--until", "2026-08-01T12:09:00Z"), [5, 7]),
    ],
)
def test_a_list_is_narrowed(call_server: Call, flags: tuple[str, ...], expected: list[int]) -> None:
    assert offsets(call_server("dlq", "list", "billing", "--json", *flags)) == expected


@pytest.mark.parametrize("flags", [("--key", "id-3"), ("--since", "2026-08-02"), ("--until", "2026-07-31")])
def test_a_list_that_matches_nothing_says_so(call_server: Call, flags: tuple[str, ...]) -> None:
    """A message id is no key, although the server looks for both at once."""
    result = call_server("dlq", "list", "billing", *flags)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "no dead letter of group billing matches\n"


@pytest.mark.parametrize("arguments", [("list",), ("resend", "--all"), ("export", "-")])
def test_a_group_without_dead_letters_is_no_error(
    call_server: Call, server: AdminServer, arguments: tuple[str, ...]
) -> None:
    name, *rest = arguments
    call_server("group", "create", "healthy")
    for _ in range(2):
        result = call_server("dlq", name, "healthy", *rest)
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == "group healthy has no dead letters\n"
        server.memory.make("%DLQ%healthy", 1)


def test_a_group_that_is_not_there_is_refused(call_server: Call) -> None:
    result = call_server("dlq", "list", "bilking")
    assert (result.exit_code, result.stderr) == (1, "ternmq: CONSUMER_GROUP_NOT_FOUND: no group bilking\n")


def test_a_key_with_more_letters_than_a_server_finds_at_once_is_listed_whole(
    call_server: Call, server: AdminServer
) -> None:
    for number in range(10, 10 + 3 * FOUND_MAX):
        put(server, number, keys=("many",))
    assert offsets(call_server("dlq", "list", "billing", "--key", "many", "--json")) == list(
        range(10, 10 + 3 * FOUND_MAX)
    )


def test_letters_that_retention_has_removed_are_not_listed(call_server: Call, server: AdminServer) -> None:
    server.memory.queues[TOPIC][0].remove_before(7)
    assert offsets(call_server("dlq", "list", "billing", "--json")) == [7, 8, 9]


def test_letters_that_retention_removes_meanwhile_are_passed_over(call_server: Call, server: AdminServer) -> None:
    for number in range(10, 100):
        put(server, number)

    def remove(method: str, request: Any) -> None:  # noqa: ANN401
        if method == "PullMessage" and request.offset == 32:
            server.memory.queues[TOPIC][0].remove_before(80)

    server.memory.before = remove
    assert offsets(call_server("dlq", "list", "billing", "--json")) == [*range(32), *range(80, 100)]


@pytest.fixture
def reader(server: AdminServer) -> Iterator[DeadLetters]:
    with AdminClient(server.endpoint) as admin, MessagingClient(server.endpoint) as messaging:
        yield DeadLetters(admin, messaging, "billing")


def test_letters_are_read_as_they_are_asked_for(server: AdminServer, reader: DeadLetters) -> None:
    for number in range(10, 200):
        put(server, number)
    with AdminClient(server.endpoint) as admin, MessagingClient(server.endpoint) as messaging:
        stream = DeadLetters(admin, messaging, "billing").read_letters(LetterSelection())
        for _ in range(32):
            next(stream)
        assert server.memory.calls["PullMessage"] == 1
        next(stream)
        assert server.memory.calls["PullMessage"] == 2
    assert len(list(reader.read_letters(LetterSelection()))) == 10, "it ends where the queue ended when it was opened"


def test_offsets_of_a_range_are_known_without_reading_it(server: AdminServer, reader: DeadLetters) -> None:
    assert reader.find_offsets(LetterSelection()) == {"broker-0": range(10)}
    assert server.memory.calls["PullMessage"] == 0


@pytest.mark.parametrize("name", ["3", "id-3"])
def test_a_letter_is_shown_by_offset_or_id(call_server: Call, name: str) -> None:
    shown = json.loads(call_server("dlq", "show", "billing", name, "--json").stdout)
    assert shown == {
        "offset": 3,
        "message_id": "id-3",
        "origin_topic": "orders",
        "origin_message_id": "id-3",
        "attempts": 3,
        "reason": "attempts",
        "tag": "paid",
        "keys": ["k1"],
        "message_group": None,
        "priority": None,
        "lite_topic": None,
        "properties": {
            "DLQ_ATTEMPTS": "3",
            "DLQ_ORIGIN_MESSAGE_ID": "id-3",
            "DLQ_ORIGIN_TOPIC": "orders",
            "DLQ_REASON": "attempts",
            "region": "eu",
        },
        "born": "2023-11-14T22:13:19.123Z",
        "stored": "2026-08-01T12:03:00.000Z",
        "delivery": None,
        "body_bytes": 6,
        "body": "body 3",
    }
    people = call_server("dlq", "show", "billing", name).stdout
    assert "origin topic       orders\n" in people
    assert "properties\n  DLQ_ATTEMPTS           3\n" in people
    assert "  region                 eu\n" in people
    assert people.endswith("\n\nbody 3\n")


@pytest.mark.parametrize("name", ["10", "id-99", "k1"])
def test_a_letter_that_is_not_there_is_an_error(call_server: Call, name: str) -> None:
    result = call_server("dlq", "show", "billing", name)
    assert (result.exit_code, result.stderr) == (1, f"ternmq: group billing has no dead letter {name}\n")


def test_of_a_message_that_died_twice_the_newest_letter_is_meant(call_server: Call, server: AdminServer) -> None:
    server.memory.put(TOPIC, 0, dead_letter(3), stored_ms=T0_MS + 3_600_000)
    assert json.loads(call_server("dlq", "show", "billing", "id-3", "--json").stdout)["offset"] == 10
    call_server("dlq", "resend", "--yes", "billing", "--id", "id-3")
    assert list(server.resends[0].offsets) == [10]


def test_a_letter_without_the_brokers_properties_is_shown_all_the_same(call_server: Call, server: AdminServer) -> None:
    letter = dead_letter(10)
    letter.user_properties.clear()
    server.memory.put(TOPIC, 0, letter)
    shown = json.loads(call_server("dlq", "show", "billing", "10", "--json").stdout)
    origin = shown["origin_topic"], shown["origin_message_id"], shown["attempts"], shown["reason"]
    assert origin == ("orders", "id-10", None, None)


def test_bodies_are_exported_as_they_were_sent(call_server: Call, server: AdminServer, tmp_path: Path) -> None:
    packed, broken = dead_letter(11, body=gzip.compress("grüße".encode())), dead_letter(12, body=b"not gzip \xff")
    packed.system_properties.body_encoding = broken.system_properties.body_encoding = pb.GZIP
    put(server, 10, body=b"\xff\x00")
    server.memory.put(TOPIC, 0, packed)
    server.memory.put(TOPIC, 0, broken)
    file = tmp_path / "letters.jsonl"
    result = call_server("dlq", "export", "billing", str(file))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "exported 13 dead letters of group billing\n"
    exported = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [record["offset"] for record in exported] == list(range(13))
    assert exported[0]["body"] == "body 0"
    assert base64.b64decode(exported[10]["body_base64"]) == b"\xff\x00"
    assert exported[11]["body"] == "grüße"
    assert base64.b64decode(exported[12]["body_base64"]) == b"not gzip \xff"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--all",), list(range(10))),
        (("--offset", "7", "--offset", "2", "--offset", "7"), [7, 2]),
        (("--id", "id-4", "--id", "id-1"), [4, 1]),
        (("--key", "k0"), [0, 2, 4, 6, 8]),
        (("--key", "k0", "--since", "2026-08-01T12:05:00Z"), [6, 8]),
        (("--since", "2026-08-01T12:08:00Z"), [8, 9]),
        (("--all", "--until", "2026-08-01T12:01:00Z"), [0]),
    ],
)
def test_the_same_letters_are_exported_rehearsed_and_resent(
    call_server: Call, server: AdminServer, flags: tuple[str, ...], expected: list[int]
) -> None:
    assert offsets(call_server("dlq", "export", "billing", "-", *flags)) == expected
    rehearsed = call_server("dlq", "resend", "billing", *flags, "--dry-run", "--json")
    assert offsets(rehearsed) == expected
    assert "would be resent; nothing was changed" in rehearsed.stderr
    assert not server.resends
    assert offsets(call_server("dlq", "resend", "--yes", "billing", *flags, "--json")) == expected
    assert [list(request.offsets) for request in server.resends] == [expected]


def test_an_export_names_the_letters_that_are_not_there(call_server: Call) -> None:
    result = call_server("dlq", "export", "billing", "-", "--offset", "3", "--offset", "10")
    assert result.exit_code == 1
    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == [3]
    assert result.stderr.splitlines()[-1] == "ternmq: group billing has no dead letter with offset 10"


def test_a_file_that_can_not_be_written_is_wrong_usage(call_server: Call, tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "letters.jsonl"
    result = call_server("dlq", "export", "billing", str(file))
    assert (result.exit_code, result.stderr) == (2, f"ternmq: can't write {file}: No such file or directory\n")


@pytest.mark.parametrize(
    "flags",
    [
        ("--all", "--offset", "1"),
        ("--key", "a", "--id", "b"),
        ("--id", "a", "--since", "2h"),
        ("--offset", "1", "--until", "2h"),
    ],
)
def test_selections_that_contradict_are_wrong_usage(call: Call, flags: tuple[str, ...]) -> None:
    for command in (("resend", "billing"), ("export", "billing", "-")):
        result = call("dlq", *command, *flags)
        assert (result.exit_code, result.stdout) == (2, "")


def test_a_resend_that_is_refused_as_a_whole_claims_nothing(call_server: Call, server: AdminServer) -> None:
    server.refusal = pb.Status(code=pb.TOPIC_NOT_FOUND, message="no topic repaired")
    result = call_server("dlq", "resend", "--yes", "billing", "--all", "--to-topic", "repaired")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "ternmq: TOPIC_NOT_FOUND: no topic repaired\n"


def test_many_letters_are_resent_in_batches(call_server: Call, server: AdminServer) -> None:
    for number in range(10, 600):
        put(server, number)
    result = call_server("dlq", "resend", "--yes", "billing", "--all", "--to-topic", "repaired")
    assert result.stdout == "resent 600 dead letters of group billing to repaired\n"
    assert "they stay in the dead letter topic: resending them again delivers them again" in result.stderr
    assert [len(request.offsets) for request in server.resends] == [256, 256, 88]
    assert {(request.group, request.to_topic) for request in server.resends} == {("billing", "repaired")}


def test_letters_that_can_not_be_resent_are_named(call_server: Call, server: AdminServer) -> None:
    server.unsendable = {3, 5}
    result = call_server("dlq", "resend", "--yes", "billing", "--all")
    assert (result.exit_code, result.stdout) == (1, "resent 8 dead letters of group billing\n")
    assert result.stderr.splitlines() == [
        "offset 3: MESSAGE_NOT_FOUND: gone",
        "offset 5: MESSAGE_NOT_FOUND: gone",
        "they stay in the dead letter topic: resending them again delivers them again",
        "ternmq: 2 of 10 dead letters could not be resent",
    ]


def test_an_id_that_is_no_letters_is_a_failure_and_the_others_are_resent(
    call_server: Call, server: AdminServer
) -> None:
    result = call_server("dlq", "resend", "--yes", "billing", "--id", "id-99", "--id", "id-2")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == "id id-99: there is no such dead letter"
    assert list(server.resends[0].offsets) == [2]


def test_a_resend_that_matches_nothing_says_so(call_server: Call, server: AdminServer) -> None:
    for flags in (("--key", "none"), ("--key", "none", "--dry-run"), ("--since", "2026-08-02")):
        result = call_server("dlq", "resend", "--yes", "billing", *flags)
        assert (result.exit_code, result.stderr) == (0, "no dead letter of group billing matches\n")
    assert not server.resends


@pytest.mark.usefixtures("terminal")
def test_a_person_is_asked_before_letters_are_resent(call_server: Call, server: AdminServer) -> None:
    refused = call_server("dlq", "resend", "billing", "--key", "k1", "--to-topic", "repaired", stdin="n\n")
    assert (refused.exit_code, server.resends) == (130, [])
    assert "Deliver 5 dead letters of group billing to repaired?" in refused.stderr
    assert call_server("dlq", "resend", "billing", "--all", "--yes").exit_code == 0
    assert call_server("dlq", "resend", "billing", "--offset", "1", stdin="y\n").exit_code == 0
    assert [len(request.offsets) for request in server.resends] == [10, 1]


# --- several brokers


@pytest.fixture
def spread(server: AdminServer) -> None:
    """Three more letters, at the offsets 0 to 2 of broker-1; they died between the first ones of broker-0."""
    server.memory.make(TOPIC, 1, broker="broker-1")
    for number in range(3):
        letter = dead_letter(100 + number, keys=("k1", "far"))
        server.memory.put(TOPIC, 0, letter, stored_ms=T0_MS + 30_000 + number * 60_000, broker="broker-1")


def places(result: Result) -> list[tuple[str, int]]:
    return [(record["broker"], record["offset"]) for record in lines(result)]


@pytest.mark.usefixtures("spread")
def test_letters_of_all_brokers_are_listed_the_oldest_first_with_their_broker(call_server: Call) -> None:
    listed = places(call_server("dlq", "list", "billing", "--json"))
    assert listed[:7] == [("broker-0", 0), ("broker-1", 0), ("broker-0", 1), ("broker-1", 1), ("broker-0", 2),
                          ("broker-1", 2), ("broker-0", 3)]  # fmt: skip
    assert len(listed) == 13
    assert call_server("dlq", "list", "billing").stdout.splitlines()[1].split()[:2] == ["broker-0", "0"]
    with_key = places(call_server("dlq", "list", "billing", "--key", "k1", "--until", "2026-08-01T12:02:00Z", "--json"))
    assert with_key == [("broker-1", 0), ("broker-0", 1), ("broker-1", 1)]


@pytest.mark.usefixtures("spread")
def test_one_broker_is_enough(call_server: Call) -> None:
    listed = call_server("dlq", "list", "billing", "--broker", "broker-1", "--json")
    assert places(listed) == [("broker-1", 0), ("broker-1", 1), ("broker-1", 2)]
    exported = call_server("dlq", "export", "billing", "-", "--broker", "broker-0", "--key", "k1")
    assert places(exported) == [("broker-0", number) for number in (1, 3, 5, 7, 9)]
    result = call_server("dlq", "list", "billing", "--broker", "broker-7")
    assert result.exit_code == 1
    assert result.stderr == "ternmq: %DLQ%billing is not on broker broker-7; it is on broker-0, broker-1\n"


@pytest.mark.usefixtures("spread")
def test_an_offset_is_one_of_a_named_broker(call_server: Call, server: AdminServer) -> None:
    for arguments in (("show", "billing", "1"), ("export", "billing", "-", "--offset", "1"),
                      ("resend", "billing", "--offset", "1")):  # fmt: skip
        result = call_server("dlq", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        several = "several brokers have dead letters: choose one with --broker: broker-0, broker-1"
        assert result.stderr == f"ternmq: {several}\n"
    shown = json.loads(call_server("dlq", "show", "billing", "1", "--broker", "broker-1", "--json").stdout)
    assert (shown["broker"], shown["message_id"]) == ("broker-1", "id-101")
    assert json.loads(call_server("dlq", "show", "billing", "id-102", "--json").stdout)["broker"] == "broker-1"
    assert call_server("dlq", "resend", "--yes", "billing", "--offset", "1", "--broker", "broker-1").exit_code == 0
    assert [(request.broker, list(request.offsets)) for request in server.resends] == [("broker-1", [1])]


@pytest.mark.usefixtures("spread")
def test_letters_are_resent_broker_by_broker(call_server: Call, server: AdminServer) -> None:
    result = call_server("dlq", "resend", "--yes", "billing", "--all")
    assert result.stdout == "resent 13 dead letters of group billing\n"
    assert [(request.broker, list(request.offsets)) for request in server.resends] == [
        ("broker-0", [*range(10)]),
        ("broker-1", [0, 1, 2]),
    ]
    server.resends.clear()
    server.unsendable = {2}
    result = call_server("dlq", "resend", "--yes", "billing", "--key", "far", "--json")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == "offset 2 on broker-1: MESSAGE_NOT_FOUND: gone"
    resent = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(record["broker"], record["offset"]) for record in resent] == [("broker-1", 0), ("broker-1", 1)]
