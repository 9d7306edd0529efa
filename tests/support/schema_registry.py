"""What stands for a schema registry in tests: a real HTTP server that answers as Confluent's API does, from a dict.

It has the questions that readers ask, the API's error codes, basic authentication and TLS; nothing can be registered.
"""

import base64
import json
import ssl
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


class SchemaRegistry:
    """What the server has, what it was asked, and how it is to fail."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.serialized: dict[int, bytes] = {}
        """FileDescriptorProtos of those of Protobuf."""
        self.subjects: dict[str, list[int]] = {}
        self.asked = Counter[str]()
        self.answers: list[tuple[int, bytes]] = []
        """Statuses and contents that are given first, in turn, to any question."""
        self.keys: str | None = None
        """`user:password`, if they are needed."""
        self.url = ""

    def add(
        self,
        schema_id: int,
        text: str,
        *,
        subject: str | None = None,
        kind: str = "AVRO",
        references: Sequence[Mapping[str, Any]] = (),
        serialized: bytes = b"",
    ) -> None:
        # As Confluent's, which leaves out what is the default.
        more = {"schemaType": kind} if kind != "AVRO" else {}
        self.schemas[schema_id] = {"schema": text, **more, **({"references": [*references]} if references else {})}
        self.serialized[schema_id] = serialized
        if subject is not None:
            self.subjects.setdefault(subject, []).append(schema_id)

    def answer(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        self.asked[path] += 1
        if self.answers:
            return self.answers.pop(0)
        if self.keys is not None and authorization != f"Basic {base64.b64encode(self.keys.encode()).decode()}":
            return _error(401, 401, "Unauthorized")
        parts = urlsplit(path)
        is_serialized = parse_qs(parts.query).get("format") == ["serialized"]
        match [unquote(part) for part in parts.path.strip("/").split("/")]:
            case ["schemas", "ids", number]:
                return self._by_id(int(number), is_serialized)
            case ["subjects", subject, "versions", version]:
                return self._version(subject, version, is_serialized)
        return 404, b"<html>there is no such page</html>"

    def _by_id(self, schema_id: int, is_serialized: bool) -> tuple[int, bytes]:
        if schema_id not in self.schemas:
            return _error(404, 40403, f"Schema {schema_id} not found")
        return 200, json.dumps(self._schema(schema_id, is_serialized)).encode()

    def _schema(self, schema_id: int, is_serialized: bool) -> dict[str, Any]:
        found = self.schemas[schema_id]
        if is_serialized and found.get("schemaType") == "PROTOBUF":
            return {**found, "schema": base64.b64encode(self.serialized[schema_id]).decode()}
        return found

    def _version(self, subject: str, version: str, is_serialized: bool) -> tuple[int, bytes]:
        ids = self.subjects.get(subject)
        if ids is None:
            return _error(404, 40401, f"Subject '{subject}' not found.")
        number = len(ids) if version == "latest" else int(version)
        if not 0 < number <= len(ids):
            return _error(404, 40402, f"Version {version} not found.")
        schema_id = ids[number - 1]
        answer = {"subject": subject, "version": number, "id": schema_id}
        answer |= self._schema(schema_id, is_serialized)
        return 200, json.dumps(answer).encode()


def _error(status: int, code: int, message: str) -> tuple[int, bytes]:
    return status, json.dumps({"error_code": code, "message": message}).encode()


@contextmanager
def schema_registry(tls: ssl.SSLContext | None = None) -> Iterator[SchemaRegistry]:
    """A registry that runs until the block ends."""
    registry = SchemaRegistry()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, content = registry.answer(self.path, self.headers["Authorization"])
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing: what was asked is counted."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        registry.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
