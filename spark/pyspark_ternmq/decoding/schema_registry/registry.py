"""A client of schema registries with Confluent's HTTP API.

Calls       `GET /schemas/ids/{id}` for the schema of a body, `GET /subjects/{subject}/versions/{version}` for
            schemas that it refers to, and for the latest of a subject.
Away        a call to a registry that can't be reached, or is busy, is repeated for `retry_s`; then the batch fails. Any
            answer except "no such schema" fails the batch at once: a fault of the server must not make bodies
            malformed.
Keys        travel with a query's plan to the workers, and are in none of its texts; plain HTTP sends them to this
            machine only.
"""

import base64
import binascii
import http.client
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from pyspark_ternmq.decoding.limits import SCHEMA_BYTES_MAX, WrongSchema

# JSON in JSON: each character may be two.
ANSWER_BYTES_MAX = 2 * SCHEMA_BYTES_MAX + 64 * 1024
REFERENCES_MAX = 100
FIRST_WAIT_S, WAIT_S_MAX = 0.1, 5.0
ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
AVRO, PROTOBUF = "AVRO", "PROTOBUF"
_BUSY = (408, 429)
_NO_SUCH = {40401, 40402, 40403}
_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")
Json = Mapping[str, Any]


class RegistryFailed(Exception):
    """The schema registry is away, or does not answer as one does."""


class NoSuchSchema(Exception):
    """The registry says that it has none of this id, or of this subject."""


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """The address of a schema registry, and how requests are sent. ValueError for an invalid one."""

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_pem: str | None = field(default=None, repr=False)
    """PEM of the authorities to trust; the system's by default."""
    timeout_s: float = 10.0
    """For connecting, and for each part of an answer."""
    retry_s: float = 60.0
    """For how long requests to a registry that does not answer are retried."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(
                "the schema registry's address is http://host:port or https://host:port, not "
                f"{_without_password(self.url)}"
            )
        if "@" in parts.netloc:
            raise ValueError("keys of the schema registry don't belong into its address")
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password of the schema registry go together")
        if self.user is not None and parts.scheme == "http" and parts.hostname not in _THIS_MACHINE:
            raise ValueError("keys of the schema registry would travel as plain text: it needs https://")
        if self.ca_pem is not None and parts.scheme == "http":
            raise ValueError("authorities to trust are for a schema registry at https://")


def _without_password(url: str) -> str:
    """An address without what may be a password."""
    return url.rpartition("@")[2]


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of a registry, by its id: `kind` is AVRO, PROTOBUF or JSON."""

    id: int
    kind: str
    text: str
    references: tuple[str, ...] = ()
    """The texts of what it refers to, each after those that it refers to itself."""


class RegistryClient:
    """Asks one registry, by a connection for each question: there are few. Blocks."""

    def __init__(self, registry: RegistryAddress) -> None:
        self._registry, self._parts = registry, urlsplit(registry.url)

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Fetch a schema. Raises NoSuchSchema, RegistryFailed, or WrongSchema if it is too large."""
        return self._parse_registered(self._get_json(f"/schemas/ids/{schema_id}"), schema_id)

    def find_latest(self, subject: str) -> RegisteredSchema:
        """The latest version of a subject. NoSuchSchema, RegistryFailed."""
        found = self._get_json(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return self._parse_registered(found, _number_of_field(found, "id", self._registry))

    def protobuf_file(self, schema_id: int) -> bytes:
        """A schema as a serialized FileDescriptorProto. NoSuchSchema, WrongSchema, RegistryFailed."""
        found = self._get_json(f"/schemas/ids/{schema_id}?format=serialized")
        if (kind := _schema_kind(found)) != PROTOBUF:
            raise WrongSchema(f"it is of {kind}, not of {PROTOBUF}")
        try:
            return base64.b64decode(_text_of_field(found, "schema", self._registry), validate=True)
        except (ValueError, binascii.Error):
            raise RegistryFailed(
                f"the schema registry {self._registry.url} does not give schemas of Protobuf as format=serialized"
            ) from None

    def _parse_registered(self, found: Json, schema_id: int) -> RegisteredSchema:
        texts: dict[tuple[str, int], str] = {}
        self._collect_references(found, texts)
        return RegisteredSchema(
            schema_id, _schema_kind(found), _text_of_field(found, "schema", self._registry), tuple(texts.values())
        )

    def _collect_references(self, found: Json, texts: dict[tuple[str, int], str]) -> None:
        """Add what a schema refers to: what that refers to first. A dict keeps the order."""
        for reference in found.get("references") or ():
            subject, version = (
                _text_of_field(reference, "subject", self._registry),
                _number_of_field(reference, "version", self._registry),
            )
            if (subject, version) in texts:
                continue
            if len(texts) >= REFERENCES_MAX:
                raise WrongSchema(f"it refers to more than {REFERENCES_MAX} others")
            # A place for those that refer to each other; at its end it moves behind what it needs.
            texts[subject, version] = ""
            inner = self._get_json(f"/subjects/{quote(subject, safe='')}/versions/{version}")
            self._collect_references(inner, texts)
            del texts[subject, version]
            texts[subject, version] = _text_of_field(inner, "schema", self._registry)

    def _get_json(self, path: str) -> Json:
        """The answer to a GET request, which is retried while the registry does not answer."""
        give_up_s, wait_s = time.monotonic() + self._registry.retry_s, FIRST_WAIT_S
        while True:
            try:
                status, content = self._send_request(path)
                if status not in _BUSY and status < 500:
                    return self._parse_answer(path, status, content)
                problem = f"it answers {status}"
            except ssl.SSLCertVerificationError as error:
                raise RegistryFailed(f"the schema registry {self._registry.url}: {error.verify_message}") from None
            except (OSError, http.client.HTTPException) as error:
                problem = str(error) or type(error).__name__
            if time.monotonic() + wait_s > give_up_s:
                raise RegistryFailed(f"the schema registry {self._registry.url} is away: {problem}")
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, WAIT_S_MAX)

    def _send_request(self, path: str) -> tuple[int, bytes]:
        connection = self._open_connection()
        try:
            connection.request("GET", self._parts.path.rstrip("/") + path, headers=self._request_headers())
            answer = connection.getresponse()
            return answer.status, answer.read(ANSWER_BYTES_MAX + 1)
        finally:
            connection.close()

    def _open_connection(self) -> http.client.HTTPConnection:
        registry, host = self._registry, self._parts.hostname
        assert host is not None
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, self._parts.port, timeout=registry.timeout_s)
        trusted = ssl.create_default_context(cadata=registry.ca_pem)
        return http.client.HTTPSConnection(host, self._parts.port, timeout=registry.timeout_s, context=trusted)

    def _request_headers(self) -> dict[str, str]:
        headers = {"Accept": ACCEPT, "Connection": "close"}
        if self._registry.user is not None:
            keys = f"{self._registry.user}:{self._registry.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(keys).decode()}"
        return headers

    def _parse_answer(self, path: str, status: int, content: bytes) -> Json:
        if len(content) > ANSWER_BYTES_MAX:
            raise WrongSchema(f"it has more than {SCHEMA_BYTES_MAX:,} bytes")
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            found = None
        if status == 200 and isinstance(found, Mapping):
            return found
        # A 404 of some other server, as at a wrong address, says nothing about schemas.
        if status == 404 and isinstance(found, Mapping) and found.get("error_code") in _NO_SUCH:
            raise NoSuchSchema(path)
        reason = found.get("message", "") if isinstance(found, Mapping) else ""
        raise RegistryFailed(f"the schema registry {self._registry.url} answers {status} {str(reason)[:200]}".rstrip())


def _schema_kind(found: Json) -> str:
    return str(found.get("schemaType") or AVRO)


def _text_of_field(found: Any, name: str, registry: RegistryAddress) -> str:  # noqa: ANN401
    value = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(value, str):
        raise RegistryFailed(f"the schema registry {registry.url} gives a schema without its {name}")
    return value


def _number_of_field(found: Any, name: str, registry: RegistryAddress) -> int:  # noqa: ANN401
    value = found.get(name) if isinstance(found, Mapping) else None
    if type(value) is not int:
        raise RegistryFailed(f"the schema registry {registry.url} gives a schema without its {name}")
    return value
