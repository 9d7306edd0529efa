"""Options as Spark hands them over, texts under names whose case does not count, and what they mean.

`OptionReader` reads them one by one with a clear error for each that is wrong; `ConnectionOptions` is what source and
sink have in common: the broker's address and the credentials. Secrets are kept out of every text that this module
makes.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ternmq import ClientError, Credentials, CredentialsFile, TlsOptions
from ternmq.connections.endpoints import Endpoints
from ternmq.options import ClientOptions
from ternmq_common.units import parse_duration

CONNECTION_OPTIONS = (
    "endpoint",
    "tls",
    "tlsCaFile",
    "tlsCertificateFile",
    "tlsKeyFile",
    "tlsServerName",
    "credentialsFile",
    "accessKey",
    "secretKey",
    "sessionToken",
    "requestTimeoutMs",
    "retryTimeoutMs",
)
# Spark adds them to those of the user.
_OF_SPARK = ("path", "paths", "checkpointLocation", "queryName", "outputMode", "triggerInterval")
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")
REQUEST_TIMEOUT_MS = 10_000
# Longer than a broker needs to come back, for Spark itself repeats a task four times at most, in local mode never.
RETRY_TIMEOUT_MS = 60_000


class WrongOption(ValueError):
    """An option or a column that can't be; the text says what is allowed."""


class OptionReader:
    """Reads the options of one read or write; `known` are the names that it may have."""

    def __init__(self, options: Mapping[str, str], known: Iterable[str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        names = (*known, *CONNECTION_OPTIONS)
        allowed = {name.lower() for name in (*names, *_OF_SPARK)}
        for name in options:
            if name.lower() not in allowed:
                raise WrongOption(f"format ternmq has no option {name!r}{nearest_name(name, names)}")

    def read_text(self, name: str, default: str | None = None) -> str | None:
        """Return the value of an option; the default if it is absent or blank."""
        return self._values.get(name.lower(), "").strip() or default

    def read_required(self, name: str, what: str) -> str:
        value = self.read_text(name)
        if value is None:
            raise WrongOption(f"option {name} is missing: {what}")
        return value

    def read_number(self, name: str, default: int | None = None, *, minimum: int = 1) -> int | None:
        value = self.read_text(name)
        if value is None:
            return default
        if not value.isascii() or not value.isdigit() or int(value) < minimum:
            raise WrongOption(f"option {name}={value!r} is not a whole number of at least {minimum}")
        return int(value)

    def read_rate(self, name: str) -> float | None:
        """A number above 0."""
        value = self.read_text(name)
        if value is None:
            return None
        try:
            rate = float(value)
        except ValueError:
            rate = 0.0
        if not 0 < rate < float("inf"):
            raise WrongOption(f"option {name}={value!r} is not a number above 0")
        return rate

    def read_choice(self, name: str, values: tuple[str, ...]) -> str:
        """One of the values; the first if there is none."""
        value = self.read_text(name, values[0])
        if value not in values:
            raise WrongOption(f"option {name}={value!r} is not {' or '.join(values)}")
        return value

    def duration_ms(self, name: str) -> int | None:
        """`90s`, `15m`, or milliseconds."""
        value = self.read_text(name)
        if value is None:
            return None
        try:
            return int(parse_duration(value, unit="ms"))
        except ValueError as error:
            raise WrongOption(f"option {name}={value!r} is no duration: {error}") from None

    def read_flag(self, name: str, default: bool) -> bool:
        value = self.read_text(name)
        if value is None:
            return default
        if value.lower() in _TRUE:
            return True
        if value.lower() in _FALSE:
            return False
        raise WrongOption(f"option {name}={value!r} is neither true nor false")


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Endpoint, TLS and credentials. They are sent to the executors, so `tls` has the contents of files, no paths."""

    endpoint: str
    request_timeout_s: float = REQUEST_TIMEOUT_MS / 1000
    retry_timeout_s: float = RETRY_TIMEOUT_MS / 1000
    tls: TlsOptions | None = None
    credentials: Credentials | None = None

    def client_options(self) -> ClientOptions:
        """The same for a client of the library."""
        return ClientOptions(
            request_timeout=self.request_timeout_s, credentials=self.credentials, tls=self.tls or False
        )


def connection_of(reader: OptionReader) -> ConnectionOptions:
    """The connection that the options describe; the files of keys and certificates are read here, on the driver."""
    endpoint = reader.read_required("endpoint", "where the broker or proxy listens, such as 127.0.0.1:8081")
    try:
        Endpoints.parse(endpoint)
    except ClientError as error:
        raise WrongOption(f"option endpoint: {error.message}") from None
    certificate, private_key = _read_file(reader, "tlsCertificateFile"), _read_file(reader, "tlsKeyFile")
    if (certificate is None) != (private_key is None):
        raise WrongOption("options tlsCertificateFile and tlsKeyFile belong together: one of them is missing")
    ca_certificate, server_name = _read_file(reader, "tlsCaFile"), reader.read_text("tlsServerName")
    wants_tls = reader.read_flag("tls", any((ca_certificate, certificate, server_name)))
    tls = TlsOptions(ca=ca_certificate, client_cert=certificate, client_key=private_key, server_name=server_name)
    if wants_tls or any((ca_certificate, certificate)):
        # Else nothing is read, and the authorities of the system take 20 ms.
        try:
            tls.ssl_context()
        except ClientError as error:
            raise WrongOption(f"options tls...: {error}") from None
    timeout_ms = reader.read_number("requestTimeoutMs", REQUEST_TIMEOUT_MS)
    retry_ms = reader.read_number("retryTimeoutMs", RETRY_TIMEOUT_MS, minimum=0)
    assert timeout_ms is not None
    assert retry_ms is not None
    return ConnectionOptions(
        endpoint=endpoint,
        request_timeout_s=timeout_ms / 1000,
        retry_timeout_s=retry_ms / 1000,
        tls=tls if wants_tls else None,
        credentials=_read_credentials(reader),
    )


def kafka_names(reader: OptionReader) -> bool:
    """Whether columns have the names that Spark's connector for Kafka gives them."""
    return reader.read_choice("columnNames", ("ternmq", "kafka")) == "kafka"


def nearest_name(name: str, known: Collection[str]) -> str:
    """The end of a message about a name that is not known."""
    by_lower = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return f"; did you mean {by_lower[found[0]]!r}?" if found else f"; there are {', '.join(known)}"


def _read_credentials(reader: OptionReader) -> Credentials | None:
    access_key, secret_key = reader.read_text("accessKey"), reader.read_text("secretKey")
    session_token, file = reader.read_text("sessionToken"), reader.read_text("credentialsFile")
    if file is not None:
        if any((access_key, secret_key, session_token)):
            raise WrongOption("option credentialsFile excludes accessKey, secretKey and sessionToken")
        try:
            return CredentialsFile(file)()
        except ClientError as error:
            raise WrongOption(f"option credentialsFile: {error}") from None
    if access_key is None and secret_key is None:
        if session_token is not None:
            raise WrongOption("option sessionToken needs accessKey and secretKey")
        return None
    if access_key is None or secret_key is None:
        raise WrongOption("options accessKey and secretKey belong together: one of them is missing")
    try:
        return Credentials(access_key, secret_key, session_token)
    except ValueError as error:
        raise WrongOption(f"options accessKey and sessionToken: {error}") from None


def _read_file(reader: OptionReader, name: str) -> bytes | None:
    path = reader.read_text(name)
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise WrongOption(f"option {name}: {path} can't be read: {error.strerror or error}") from None
