"""A client of the remoting protocol that sends what a test wants to send: `await RemotingClient.connect(address)`."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from typing import Self

from ternmq_rpc.remoting.commands import ONEWAY_FLAG, RESPONSE_FLAG, Command, decode_command, encode_command
from ternmq_rpc.remoting.frames import JSON, FrameReader
from tests.support.users import SECRET

TIMEOUT_S = 30.0
VERSION = 409  # 4.9.8


class RemotingClient:
    """One connection. `pushed` are the requests of the server that came, the oldest first; `answers` maps the code of
    such a request to the command that answers it."""

    def __init__(self) -> None:
        self.pushed: asyncio.Queue[Command] = asyncio.Queue()
        self.closed = asyncio.Event()
        self.answers: dict[int, Command] = {}
        self.serialization = JSON
        self.version = VERSION
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._number = 0
        self._task: asyncio.Task[None]

    @classmethod
    async def connect(cls, address: str) -> Self:
        """Connect to `host:port`."""
        client = cls()
        host, _, port = address.rpartition(":")
        client._reader, client._writer = await asyncio.open_connection(host.strip("[]"), int(port))
        client._task = asyncio.create_task(client._read_forever())
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        self._task.cancel()
        self._writer.close()
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    def is_closed(self) -> bool:
        """Whether the server closed the connection."""
        return self.closed.is_set()

    async def _read_forever(self) -> None:
        try:
            await self._read_frames()
        finally:
            self.closed.set()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the server closed the connection"))

    async def _read_frames(self) -> None:
        frames = FrameReader()
        while data := await self._reader.read(1 << 16):
            for frame in frames.read_frames(data):
                command = decode_command(*frame)
                if command.is_response:
                    waiting = self._waiting.pop(command.opaque)
                    if not waiting.done():  # its caller may have gone
                        waiting.set_result(command)
                else:
                    self.pushed.put_nowait(command)
                    self._answer(command)

    def _answer(self, command: Command) -> None:
        answer = self.answers.get(int(command.code))
        if answer is not None and not command.is_oneway:
            answer.opaque, answer.flag = command.opaque, RESPONSE_FLAG
            self._writer.write(encode_command(answer, self.serialization))

    async def call_as(self, user: str, code: int, body: bytes = b"", /, **fields: object) -> Command:
        """Send a request that a user with `SECRET` signed, and return its answer."""
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
        texts["AccessKey"] = user
        content = "".join(value for _, value in sorted(texts.items())).encode() + body
        signature = base64.b64encode(hmac.digest(SECRET.encode(), content, hashlib.sha1)).decode()
        return await self.call(code, body, **texts, Signature=signature)

    async def call(self, code: int, body: bytes = b"", /, **fields: object) -> Command:
        """Send a request, and return its answer; fields that are None are left out."""
        if self.is_closed:
            raise ConnectionError("the server closed the connection")
        self._number += 1
        number = self._number
        waiting: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        self._writer.write(self._encode(code, body, fields, number, 0))
        async with asyncio.timeout(TIMEOUT_S):  # `wait_for` of Python 3.11 loses a cancellation as the answer comes
            return await waiting

    async def send_oneway(self, code: int, body: bytes = b"", /, **fields: object) -> None:
        """Send a request that gets no answer."""
        self._number += 1
        self._writer.write(self._encode(code, body, fields, self._number, ONEWAY_FLAG))
        await self._writer.drain()

    def _encode(self, code: int, body: bytes, fields: dict[str, object], number: int, flag: int) -> bytes:
        texts = {name: _text_of(value) for name, value in fields.items() if value is not None}
        command = Command(code, opaque=number, flag=flag, fields=texts, body=body, version=self.version)
        return encode_command(command, self.serialization)

    # --- what clients usually send

    async def send(
        self,
        topic: str,
        body: bytes,
        *,
        queue_id: int = 0,
        group: str = "PG",
        properties: dict[str, str] | None = None,
        **fields: object,
    ) -> Command:
        """Send a message (310)."""
        text = "\x02".join(f"{name}\x01{value}" for name, value in (properties or {}).items())
        header: dict[str, object] = {
            "a": group,
            "b": topic,
            "c": "TBW102",
            "d": 4,
            "e": queue_id,
            "f": 0,
            "g": int(time.time() * 1000),
            "h": 0,
            "i": text,
            "j": 0,
            "k": False,
            "m": False,
        }
        return await self.call(310, body, **(header | fields))

    async def heartbeat(
        self,
        client_id: str,
        *,
        consumers: dict[str, list[str]] | None = None,
        producers: tuple[str, ...] = (),
        model: str = "CLUSTERING",
        sub_version: int = 1,
        expression: str = "*",
    ) -> Command:
        """Send a heartbeat (34): `consumers` are groups with their topics; the retry topic is added."""
        groups = [
            {
                "groupName": group,
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": model,
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                "unitMode": False,
                "subscriptionDataSet": [
                    {"topic": topic, "subString": expression, "subVersion": sub_version, "expressionType": "TAG"}
                    for topic in topics
                ]
                + [{"topic": f"%RETRY%{group}", "subString": "*", "subVersion": sub_version}],
            }
            for group, topics in (consumers or {}).items()
        ]
        body = {
            "clientID": client_id,
            "producerDataSet": [{"groupName": group} for group in producers],
            "consumerDataSet": groups,
        }
        return await self.call(34, json.dumps(body).encode())

    async def lock(
        self, group: str, client_id: str, *queues: tuple[str, str, int], code: int = 41
    ) -> list[tuple[str, str, int]]:
        """Lock queues (41), each by topic, broker and id; return those that the client has. With 42 release them."""
        named = [{"topic": topic, "brokerName": broker, "queueId": number} for topic, broker, number in queues]
        body = {"consumerGroup": group, "clientId": client_id, "mqSet": named}
        answer = await self.call(code, json.dumps(body).encode())
        assert answer.code == 0, answer.remark
        locked = json.loads(answer.body)["lockOKMQSet"] if answer.body else []
        return [(each["topic"], each["brokerName"], each["queueId"]) for each in locked]

    async def pull(
        self, group: str, topic: str, *, queue_id: int = 0, offset: int = 0, suspend_ms: int = 0, **fields: object
    ) -> Command:
        """Pull messages (11) by the group's subscription; with `suspend_ms` it waits."""
        header: dict[str, object] = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": queue_id,
            "queueOffset": offset,
            "maxMsgNums": 32,
            "sysFlag": 2 if suspend_ms else 0,
            "commitOffset": 0,
            "suspendTimeoutMillis": suspend_ms,
            "subVersion": 1,
        }
        return await self.call(11, **(header | fields))


def _text_of(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
