"""Calls between the processes of a server: the supervisor serves the console, and a worker carries out its calls.

A call is `POST /inside/call/NAME/ASKER` at the worker's socket, which only this user can open; the body is the request.
The answer is 200 with its frames, each after its length in four bytes; 401 if the caller is no user; 503 if the worker
is busy. `/inside/sign-in/ASKER` only checks the caller.
"""

from typing import TYPE_CHECKING

from ternmq_console.calls import CALLS
from ternmq_console.operator_calls import NotSignedIn, ServerBusy
from ternmq_runtime.http.basic import HttpCaller
from ternmq_runtime.http.front import INTERNAL_PATH
from ternmq_runtime.workers.local_requests import NoAnswer, request_locally
from ternmq_runtime.workers.worker_place import BROKER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ternmq_console.operator_calls import Message, OperatorCalls
    from ternmq_runtime.http.asgi import AsgiMessage
    from ternmq_runtime.workers.process_keeper import ProcessKeeper

_CALL, _SIGN_IN = f"{INTERNAL_PATH}call/", f"{INTERNAL_PATH}sign-in/"
_LENGTH_BYTES = 4
# Longer than a worker's own limit.
_PATIENCE_S = 35.0
_UNIX = "unix:"


class InternalSite:
    """The site of a worker, which serves its supervisor."""

    def __init__(self, desk: "OperatorCalls") -> None:
        self._desk = desk

    def owns_path(self, path: str) -> bool:
        return path.startswith((_CALL, _SIGN_IN))

    def server_started(self, url: str) -> None:
        """Do nothing: the internal site is not logged."""

    async def __call__(
        self,
        scope: "AsgiMessage",
        receive: "Callable[[], Awaitable[AsgiMessage]]",
        send: "Callable[[AsgiMessage], Awaitable[None]]",
    ) -> None:
        body = bytearray()
        while (piece := await receive())["type"] == "http.request":
            body += piece["body"]
            if not piece["more_body"]:
                break
        status, answer = await self._answer_call(scope["path"], bytes(body))
        headers = [(b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _answer_call(self, path: str, body: bytes) -> tuple[int, bytes]:
        try:
            if path.startswith(_SIGN_IN):
                await self._desk.sign_in(HttpCaller.from_text(path.removeprefix(_SIGN_IN)))
                return 200, b""
            name, _, asker = path.removeprefix(_CALL).partition("/")
            frames = await self._desk.call(name, CALLS[name].request.FromString(body), HttpCaller.from_text(asker))
        except NotSignedIn as error:
            return 401, str(error).encode()
        except ServerBusy as error:
            return 503, str(error).encode()
        return 200, b"".join(_frame_message(frame.SerializeToString()) for frame in frames)


def _frame_message(frame: bytes) -> bytes:
    return len(frame).to_bytes(_LENGTH_BYTES) + frame


def _parse_frames(name: str, data: bytes) -> "list[Message]":
    frames, at = [], 0
    while at < len(data):
        end = at + _LENGTH_BYTES + int.from_bytes(data[at : at + _LENGTH_BYTES])
        frames.append(CALLS[name].answer.FromString(data[at + _LENGTH_BYTES : end]))
        at = end
    return frames


class WorkerCalls:
    """Makes the supervisor's calls at any of its workers, which are all equivalent."""

    def __init__(self, keepers: "Sequence[ProcessKeeper]") -> None:
        self._keepers = keepers

    async def sign_in(self, asker: HttpCaller) -> None:
        await self._call_worker(f"{_SIGN_IN}{asker.to_text()}", b"")

    async def call(self, name: str, request: "Message", asker: HttpCaller) -> "list[Message]":
        return _parse_frames(
            name, await self._call_worker(f"{_CALL}{name}/{asker.to_text()}", request.SerializeToString())
        )

    async def _call_worker(self, path: str, body: bytes) -> bytes:
        worker = next((each for each in self._keepers if each.serves and each.place.name != BROKER), None)
        if worker is None:
            raise ServerBusy("no worker serves now")
        try:
            status, answer = await request_locally(worker.place.http.removeprefix(_UNIX), path, _PATIENCE_S, body=body)
        except NoAnswer as error:
            raise ServerBusy(f"{worker.place.name} does not answer; the call may have been carried out") from error
        if status == 401:
            raise NotSignedIn(answer.decode())
        if status != 200:
            raise ServerBusy(answer.decode())
        return answer
