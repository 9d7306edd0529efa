"""A name server and broker of RocketMQ in one, with answers that a test writes."""

import socketserver
import threading
from typing import Self, cast

from ternmq_rpc.remoting.commands import RESPONSE_FLAG, Command, decode_command, encode_command
from ternmq_rpc.remoting.frames import JSON, FrameReader
from ternmq_rpc.remoting.json_dialect import encode_dialect

NOT_SUPPORTED = 3


class SourceServer:
    """Answers each request code with the JSON in `answers`, and others with code 3. `requests` are those that came."""

    def __init__(self) -> None:
        self.answers: dict[int, object] = {}
        self.requests: list[Command] = []
        self._server = _Server(("127.0.0.1", 0), _Connection)
        self._server.source = self
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self.answers[106] = {
            "brokerAddrTable": {"broker-a": {"brokerAddrs": {0: self.address, 1: "127.0.0.1:1"}}},
            "clusterAddrTable": {"DefaultCluster": ["broker-a"]},
        }
        self.answers |= {304: {"topicList": ["DefaultCluster", "broker-a"]}, 305: {"topicList": ["TBW102"]}}
        self.answers |= {21: {"topicConfigTable": {}}, 201: {"subscriptionGroupTable": {}}}

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    source: SourceServer


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        source, frames = cast("_Server", self.server).source, FrameReader()
        while data := self.request.recv(1 << 16):
            for frame in frames.read_frames(data):
                request = decode_command(*frame)
                source.requests.append(request)
                self.request.sendall(encode_command(self._answer(source, request), JSON))

    def _answer(self, source: SourceServer, request: Command) -> Command:
        found = source.answers.get(int(request.code))
        if found is None:
            remark = "is not supported"
            return Command(NOT_SUPPORTED, opaque=request.opaque, flag=RESPONSE_FLAG, remark=remark)
        return Command(0, opaque=request.opaque, flag=RESPONSE_FLAG, body=encode_dialect(found))
