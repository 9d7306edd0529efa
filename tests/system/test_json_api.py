"""The JSON API: every route does what its call does, and answers as the OpenAPI file says."""

import asyncio
import base64
import json
import uuid
from functools import partial

import pytest

from ternmq_console.api import endpoints
from ternmq_console.api.long_calls import LONG_CALLS_MAX
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import Embedded, RawClient, moment
from tests.support.json_api import LINES, PREFIX, Json, JsonApi, part
from tests.support.until import until_answered
from tests.system.conftest import SERVER_LOOP
from tests.system.test_http_front import Connection, get
from tests.unit.runtime.http.test_site import exchanged

pytestmark = SERVER_LOOP


@pytest.fixture
def api(server: Embedded) -> JsonApi:
    return JsonApi(server.http)


@pytest.fixture
def name() -> str:
    return f"api-{uuid.uuid4().hex[:12]}"


async def made(api: JsonApi, name: str, **settings: Json) -> str:
    """A topic with one queue."""
    answer = await api.post("/topics", {"name": name, "queues": 1, **settings})
    assert (answer.status, answer.json) == (201, {"created": True})
    return name


# --- routes beyond the calls, each of which `test_admin_conformance.py` has


async def test_messages_are_sent_found_and_read(api: JsonApi, name: str) -> None:
    plain = await made(api, name)
    sent = await api.post(
        f"/topics/{plain}/messages", {"text": "grüße", "tag": "a", "key": "k1", "user_properties": {"x": "y"}}
    )
    assert sent.status == 201
    read = (await api.get(f"/topics/{plain}/queues/0/messages", offset=0, limit=10)).json
    assert read["next_offset"] == 1
    (found,) = read["messages"]
    assert base64.b64decode(found["body"]).decode() == "grüße"
    assert found["user_properties"] == {"x": "y"}
    assert found["system_properties"]["message_id"] == sent.json["message_id"]
    stored = found["system_properties"]["store_timestamp"]
    sought = await api.get(f"/topics/{plain}/queues/0/offset", policy="TIMESTAMP", time=stored)
    assert sought.json == {"offset": 0}
    by_key = (await api.get(f"/topics/{plain}/messages", key="k1")).json
    assert [each["system_properties"]["message_id"] for each in by_key["messages"]] == [sent.json["message_id"]]
    assert (await api.get(f"/topics/{plain}/queues/0/messages", offset=1)).json == {"messages": [], "next_offset": 1}
    beyond = await api.get(f"/topics/{plain}/queues/0/messages", offset=7)
    assert (beyond.status, beyond.code, beyond.json["next_offset"]) == (400, "ILLEGAL_OFFSET", 1)
    purged = (await api.post(f"/topics/{plain}/purge", {"dry_run": True})).json
    assert [(queue["first"], queue["after"]) for queue in purged["queues"]] == [(0, 1)]


async def test_what_is_for_later_is_recalled(timed: RawClient, movable_server: Embedded, name: str) -> None:
    api = JsonApi(movable_server.http)
    await made(api, name, type="DELAY")
    later = moment(await timed.server_ms() + 3_600_000)
    handle = (await timed.send(name, b"later", delivery_timestamp=later)).entries[0].recall_handle
    assert (await api.post(f"/topics/{name}/recall", {"recall_handle": handle})).json["message_id"]


async def test_a_rehearsed_reset_moves_nothing_and_a_group_may_have_no_members(api: JsonApi, name: str) -> None:
    await api.post(f"/topics/{await made(api, name)}/messages", {"text": "hello"})
    await api.post("/groups", {"name": name})
    targets: list[Json] = [{"offset": 0}, {"latest": True, "dry_run": True}, {"shift": 0}]
    answers = [await api.post(f"/groups/{name}/offsets", {"topic": name, **target}) for target in targets]
    moves = [(move["before"], move["after"]) for answer in answers for move in answer.json["moves"]]
    assert moves == [(-1, 0), (0, 1), (0, 0)]
    described = (await api.get(f"/groups/{name}")).json
    assert (described["group"]["name"], described["members"]) == (name, [])


async def test_transactions_are_found_by_topic_and_by_message(api: JsonApi, client: RawClient, name: str) -> None:
    await made(api, name, type="TRANSACTION")
    await client.send(name, b"half", message_type=pb.TRANSACTION)
    everywhere = (await api.get("/transactions", limit=1000)).json["transactions"]  # also of other tests
    assert (await api.get("/brokers/broker-0/remaining")).json["transactions"] == len(everywhere)
    listed = (await api.get("/transactions", topic=name, limit=10)).json["transactions"]
    assert [each["topic"] for each in listed] == [name]
    assert (await api.get("/transactions", message_id=listed[0]["message_id"], limit=1000)).json[
        "transactions"
    ] == listed
    assert (await api.get("/transactions", topic=name, message_id="nobody")).json["transactions"] == []
    path = f"/transactions/{part(listed[0]['transaction_id'])}"
    assert (await api.get(path)).json["message"]["body"] == base64.b64encode(b"half").decode()
    resolved = await api.post(f"{path}/resolution", {"resolution": "COMMIT"})
    assert resolved.json["transaction"]["state"] == "COMMITTED"


async def test_what_a_topic_holds_and_the_last_hours_are_told(api: JsonApi, name: str) -> None:
    await made(api, name)
    assert (await api.post("/groups", {"name": name})).status == 201
    await api.post(f"/topics/{name}/messages", {"text": "hello"})
    described = (await api.get(f"/topics/{name}/queues/0/messages/0", broker="broker-0")).json
    assert base64.b64decode(described["message"]["body"]) == b"hello"
    assert (await api.get(f"/topics/{name}/queues/0/messages/1")).status == 404
    assert (await api.get(f"/topics/{name}", contents="true")).json["queues"][0]["bytes"] > 0
    for path in ("/history", f"/topics/{name}/history", f"/groups/{name}/history"):
        assert (await api.get(path)).json["step"] == "10s"


@pytest.mark.usefixtures("log_levels")
async def test_log_levels_are_changed(api: JsonApi) -> None:
    levels = (await api.get("/log-levels")).json["processes"][0]["levels"]
    assert (await api.put("/log-levels", {"levels": levels})).json["processes"][0]["levels"] == levels


async def test_a_topic_is_created_once_found_in_another_case_changed_and_deleted(api: JsonApi, name: str) -> None:
    await made(api, name, type="DELAY")
    assert (await api.post("/topics", {"name": name, "type": "DELAY", "queues": 1})).json == {"created": False}
    assert [topic["name"] for topic in (await api.get("/topics", search=name.upper())).json["topics"]] == [name]
    changed = await api.patch(f"/topics/{name}", {"retention": "3600s", "queues": 2})
    assert (changed.json["topic"]["retention"], changed.json["topic"]["queues"]) == ("3600s", 2)
    assert (await api.delete(f"/topics/{name}")).status == 204
    assert (await api.get(f"/topics/{name}")).status == 404


async def test_secrets_are_told_once_and_rotated(api: JsonApi, name: str) -> None:
    created = (await api.post("/users", {"name": name})).json
    assert created["secret"]
    assert "secret" not in str((await api.get(f"/users/{name}")).json).replace("'secrets'", "")
    assert (await api.post(f"/users/{name}/secret", {"overlap": "0s"})).json["secret"] != created["secret"]
    assert (await api.delete(f"/users/{name}")).status == 204


async def test_a_quota_may_be_of_a_name_with_slashes(api: JsonApi) -> None:
    of_client = f"/quotas/client/{part('a/b@c')}"
    assert (await api.put(of_client, {"messages_in": 100})).json == {"created": True}
    quotas = (await api.get("/quotas")).json["quotas"]
    assert ("client", "a/b@c", 100) in [(each["kind"], each["name"], each.get("messages_in")) for each in quotas]
    assert (await api.delete(of_client)).status == 204


async def test_without_access_control_there_is_no_audit_log(api: JsonApi) -> None:
    unguarded = await api.get("/audit-log")
    assert (unguarded.status, unguarded.code) == (412, "PRECONDITION_FAILED")


# --- lists


async def test_a_list_comes_in_pages_and_line_by_line(api: JsonApi, name: str) -> None:
    names = [f"{name}-{number}" for number in range(5)]
    for each in names:
        await made(api, each)
    found: list[str] = []
    page = ""
    for expected in (2, 2, 1):
        answer = (await api.get("/topics", search=name, limit=2, page=page)).json
        assert len(answer["topics"]) == expected
        found += [topic["name"] for topic in answer["topics"]]
        page = answer["next_page"]
    assert (found, page) == (names, "")
    lines = (await api.get("/topics", {"accept": LINES}, search=name)).lines
    assert [line["name"] for line in lines] == names
    named = await api.raw("GET", f"{PREFIX}/topics?name={names[3]}&name={names[1]}&name=nobody")
    assert [topic["name"] for topic in named.json["topics"]] == [names[1], names[3]]
    refused = await api.get("/topics", limit=-1)
    assert (refused.status, refused.code) == (400, "BAD_REQUEST")


async def test_more_than_a_page_comes_line_by_line(api: JsonApi, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "_stream_lines", partial(endpoints._stream_lines, page_items=2))
    for number in range(5):
        await made(api, f"{name}-{number}")
    answer = await api.get("/topics", {"accept": LINES}, search=name)
    assert [line["name"] for line in answer.lines] == [f"{name}-{number}" for number in range(5)]
    assert answer.headers["transfer-encoding"] == "chunked"


# --- what goes wrong


async def test_a_problem_names_its_code(api: JsonApi, name: str) -> None:
    missing = await api.get(f"/topics/{name}")
    assert (missing.status, missing.code) == (404, "TOPIC_NOT_FOUND")
    illegal = await api.post("/topics", {"name": "a b"})
    assert (illegal.status, illegal.code) == (400, "ILLEGAL_TOPIC")
    await made(api, name)
    other = await api.post("/topics", {"name": name, "type": "FIFO"})
    assert (other.status, other.code) == (400, "BAD_REQUEST")
    empty = await api.post(f"/topics/{name}/messages", {"text": ""})
    assert (empty.status, empty.code) == (400, "MESSAGE_BODY_EMPTY")


@pytest.mark.parametrize(
    ("method", "target", "data", "status", "said"),
    [
        ("GET", "/nothing", b"", 404, "openapi.json"),
        ("PUT", "/topics", b"{}", 405, "PUT is not served"),
        ("GET", "/topics?limit=1&limit=2", b"", 400, "limit"),
        ("GET", "/topics?nope=1", b"", 400, "known are: name, search"),
        ("GET", "/topics?limit=many", b"", 400, "limit"),
        ("DELETE", "/brokers/a?force=maybe", b"", 400, "true or false"),
        ("POST", "/topics", b"{", 400, "no JSON"),
        ("POST", "/topics", b'{"name": "\xff"}', 400, "no JSON"),
        ("POST", "/topics/a/messages", b'{"body": "hello, world"}', 400, "body must be Base64"),
        ("POST", "/topics", b"[1]", 400, "JSON object"),
        ("POST", "/topics", b'{"nope": 1}', 400, "nope"),
        ("POST", "/topics", b'{"name": 1}', 400, "name"),
        ("POST", "/topics", b'{"name": "a", "type": "NOPE"}', 400, "NOPE"),
        ("POST", "/topics", b'{"queues": 99999999999}', 400, "queues"),
        ("POST", "/topics", b'{"retention": "soon"}', 400, "retention"),
        ("PATCH", "/topics/a", b'{"name": "b"}', 400, "the address"),
        ("POST", "/topics/a/messages", b'{"text": 1}', 400, "text"),
        ("POST", "/topics/a/messages", b'{"body": "%%%"}', 400, "body"),
        ("POST", "/topics/a/messages", b'{"text": "a", "body": "YQ=="}', 400, "text"),
        ("GET", "/topics/a/queues/x/messages", b"", 400, "id"),
        ("DELETE", "/topics/a", b'{"a": 1}', 400, "no body"),
        ("POST", "/topics", b"[" * 100_000, 400, "JSON"),
        ("POST", "/topics", b'{"name":' * 5000 + b"1" + b"}" * 5000, 400, "JSON"),
    ],
)
async def test_what_can_not_be_asked_is_told_so(
    api: JsonApi, method: str, target: str, data: bytes, status: int, said: str
) -> None:
    answer = await api.raw(method, PREFIX + target, data, {"content-type": "application/json"})
    assert (answer.status, said in answer.json["error"]["message"]) == (status, True), answer
    assert answer.headers["content-type"] == "application/json"


async def test_a_path_tells_which_methods_it_has(api: JsonApi) -> None:
    answer = await api.raw("PUT", f"{PREFIX}/topics", b"{}", {"content-type": "application/json"})
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
    head = await api.raw("HEAD", f"{PREFIX}/topics")
    assert (head.status, head.body, int(head.headers["content-length"]) > 0) == (200, b"", True)


async def test_hostile_text_stays_text(api: JsonApi, server: Embedded) -> None:
    """Whatever a name holds, the answer is JSON that no browser takes for a page."""
    for name in ("<script>alert(1)<", "a\x1b[31m", "\u202egnp", "%2e%2e%2f", "'; drop"):
        answer = await api.get(f"/topics/{part(name)}")
        assert answer.status in (400, 404), answer
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "\x1b" not in answer.body.decode()
        assert "\u202e" not in answer.body.decode()
    async with Connection(server.http) as connection:
        status, _, body = await connection.ask(get(f"{PREFIX}/topics/\x00%00"))
        assert (status, "error" in json.loads(body)) == (400, True)


# --- large and long


async def test_a_message_of_the_largest_size_is_sent_and_read(api: JsonApi, name: str) -> None:
    await made(api, name)
    body = base64.b64encode(bytes(range(256)) * (4 << 12)).decode()
    assert (await api.post(f"/topics/{name}/messages", {"body": body})).status == 201
    (read,) = (await api.get(f"/topics/{name}/queues/0/messages", offset=0)).json["messages"]
    assert read["body"] == body
    more = await api.post(f"/topics/{name}/messages", {"body": body[:-4] + "AAAAAAAA"})
    assert (more.status, more.code) == (413, "MESSAGE_BODY_TOO_LARGE")


async def test_a_body_that_never_ends_is_cut_off(server: Embedded) -> None:
    async with Connection(server.http) as connection:
        head = get(f"{PREFIX}/topics", "content-type: application/json", "transfer-encoding: chunked", method="POST")
        piece = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        status, _, body = await connection.ask(head + piece * 9)
        assert (status, json.loads(body)["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")


async def test_a_poll_waits_for_a_message(api: JsonApi, name: str) -> None:
    await made(api, name)
    poll = asyncio.create_task(api.get(f"/topics/{name}/queues/0/messages", offset=0, wait="10s"))

    async def waits() -> bool:
        metrics = (await api.raw("GET", "/metrics")).body.decode().splitlines()
        return "ternmq_broker_polls 0.0" not in metrics

    async with asyncio.timeout(5):
        await until_answered(waits, answer=True)
    await api.post(f"/topics/{name}/messages", {"text": "here"})
    assert [base64.b64decode(each["body"]) for each in (await poll).json["messages"]] == [b"here"]


async def test_one_connection_asks_again_and_again(server: Embedded, api: JsonApi, name: str) -> None:
    await made(api, name)
    body = b'{"text": "a"}'
    post = get(
        f"{PREFIX}/topics/{name}/messages",
        "content-type: application/json",
        f"content-length: {len(body)}",
        method="POST",
    )
    async with Connection(server.http) as connection:
        for _ in range(3):
            assert (await connection.ask(post + body))[0] == 201
            assert (await connection.ask(get(f"{PREFIX}/topics/{name}")))[0] == 200
            assert (await connection.ask(get("/health/live")))[0] == 200
    described = (await api.get(f"/topics/{name}")).json
    assert [queue["max_offset"] for queue in described["queues"]] == [3]


async def test_a_client_that_waits_to_be_told_to_go_on_is_told(server: Embedded, api: JsonApi, name: str) -> None:
    body = json.dumps({"name": name}).encode()
    async with Connection(server.http) as connection:
        connection._writer.write(
            get(
                f"{PREFIX}/topics",
                "content-type: application/json",
                "expect: 100-continue",
                f"content-length: {len(body)}",
                method="POST",
            )
        )
        async with asyncio.timeout(5):
            assert (await connection._reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        assert (await connection.ask(body))[0] == 201
    assert (await api.get(f"/topics/{name}")).status == 200


# --- pages of others


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example", "content-type": "application/json"},
        {"origin": "null", "content-type": "application/json"},
        {"sec-fetch-site": "cross-site", "content-type": "application/json"},
        {"sec-fetch-site": "same-site", "content-type": "application/json"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {},
    ],
)
async def test_a_page_of_somebody_else_changes_nothing(api: JsonApi, name: str, headers: dict[str, str]) -> None:
    answer = await api.raw("POST", f"{PREFIX}/topics", json.dumps({"name": name}).encode(), headers)
    assert (answer.status, answer.code) == (403, "FORBIDDEN")
    assert (await api.get(f"/topics/{name}")).status == 404


async def test_a_page_of_this_server_may_change_something(server: Embedded, api: JsonApi, name: str) -> None:
    headers = {"origin": f"http://{server.http}", "sec-fetch-site": "same-origin", "content-type": "application/json"}
    answer = await api.raw("POST", f"{PREFIX}/topics", json.dumps({"name": name}).encode(), headers)
    assert answer.status == 201


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8082", "localhost.evil.example", "", "a:b:c", "[::1"])
async def test_a_name_that_leads_here_but_is_not_ours_is_refused(api: JsonApi, host: str) -> None:
    answer = await api.raw("GET", f"{PREFIX}/topics", headers={"host": host})
    assert answer.status in (400, 403)
    assert "error" in answer.json


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8082", "127.0.0.1", "[::1]:8082", "10.1.2.3:80"])
async def test_an_address_is_ours(api: JsonApi, host: str) -> None:
    assert (await api.raw("GET", f"{PREFIX}/topics", headers={"host": host})).status == 200


async def test_calls_by_http_are_counted_and_logged_as_others_are(
    strict_server: Embedded, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    # The log takes so many changes a minute of a peer, and the other server's tests may use them up.
    api = JsonApi(strict_server.http)
    with caplog.at_level("INFO", logger="ternmq_proxy.catalog.change_log"):
        await made(api, name)
    assert [each for each in caplog.messages if name in each and "127.0.0.1" in each]
    metrics = (await api.raw("GET", "/metrics")).body.decode()
    assert [line for line in metrics.splitlines() if '"CreateTopic"' in line and '"OK"' in line]


async def test_nobody_has_more_waits_under_way_than_a_few(api: JsonApi, server: Embedded, name: str) -> None:
    topic = await made(api, name)
    host, port = server.http.rsplit(":", 1)
    wait = f"GET {PREFIX}/topics/{topic}/queues/0/messages?offset=0&wait=20s HTTP/1.1\r\nhost: {host}\r\n\r\n"
    open_ones: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    statuses: list[asyncio.Task[bytes]] = []
    for _ in range(LONG_CALLS_MAX + 1):
        reader, writer = await asyncio.open_connection(host, int(port))
        open_ones.append((reader, writer))
        writer.write(wait.encode())
        statuses.append(asyncio.create_task(reader.readline()))
    async with asyncio.timeout(20):
        done, waiting = await asyncio.wait(statuses, return_when=asyncio.FIRST_COMPLETED)
        assert [each.result().split()[1] for each in done] == [b"429"]
        assert (await api.post(f"/topics/{topic}/messages", {"text": "here"})).status == 201
        assert {(await each).split()[1] for each in waiting} == {b"200"}
    for _, writer in open_ones:
        writer.close()


async def test_a_body_with_two_ends_is_refused_and_does_nothing(api: JsonApi, server: Embedded, name: str) -> None:
    body = json.dumps({"name": name}).encode()
    head = b"POST %s/topics HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n" % PREFIX.encode()
    chunked = b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(body), body)
    for ending in (b"0\r\n\n", b"0\r\nx: y\r\n z\r\n\r\n"):
        assert (await exchanged(server.http, head + chunked + ending)).startswith(b"HTTP/1.1 400 ")
    assert (await api.get(f"/topics/{name}")).status == 404
    assert (await exchanged(server.http, head + b"connection: close\r\n" + chunked + b"0\r\n\r\n")).startswith(
        b"HTTP/1.1 201 "
    )
