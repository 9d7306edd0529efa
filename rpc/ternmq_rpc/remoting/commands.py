"""A remoting command: a request or a response, with its typed header fields as texts, and a body.

A header has one of two forms: JSON (`json_header.py`) or binary (`binary_header.py`). Each frame names its own.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from ternmq_rpc.remoting import binary_header, json_header
from ternmq_rpc.remoting.frames import BINARY, JSON, RemotingError, join_frame

RESPONSE_FLAG: Final = 1
ONEWAY_FLAG: Final = 2
INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
_SMALL_CODES: Final = range(-(2**15), 2**15)
_BOOLS: Final = {"true": True, "1": True, "false": False, "0": False}


class Language(IntEnum):
    """The languages of clients, as the protocol numbers them."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13


_LANGUAGES: Final = {language.name: int(language) for language in Language}
_LANGUAGE_NAMES: Final = {int(language): language.name for language in Language}
_OTHER: Final = int(Language.OTHER)
_OTHER_NAME: Final = Language.OTHER.name


class InvalidField(ValueError):
    """A header field is missing, or its text is not of its type; the connection goes on."""


class Command:
    """A request or a response.

    `opaque` numbers a request within its connection and direction, and its response repeats it. `fields` are the header
    fields of its code: in the protocol each is a text.
    """

    __slots__ = ("body", "code", "fields", "flag", "language", "opaque", "remark", "version")

    def __init__(
        self,
        code: int,
        *,
        opaque: int = 0,
        flag: int = 0,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        remark: str = "",
        language: int = int(Language.JAVA),
        version: int = 0,
    ) -> None:
        self.code = code
        self.opaque = opaque
        self.flag = flag
        self.fields = {} if fields is None else fields
        self.body = body
        self.remark = remark
        self.language = language
        self.version = version

    def __repr__(self) -> str:
        return f"Command(code={self.code}, opaque={self.opaque}, flag={self.flag}, fields={dict(self.fields)!r})"

    @property
    def is_response(self) -> bool:
        """Whether it answers a request."""
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        """Whether its sender wants no response, not even for an error."""
        return bool(self.flag & ONEWAY_FLAG)

    def get_text(self, name: str, default: str | None = None) -> str:
        """Return a field; an empty one counts as missing. InvalidField if it is missing and has no default."""
        text = self.fields.get(name)
        if text:
            return text
        if default is None:
            raise InvalidField(f"the header has no {name}")
        return default

    def get_int32(self, name: str, default: int | None = None) -> int:
        """Return a field of 32 bits, with a sign."""
        return self._get_int(name, default, INT32_MIN, INT32_MAX)

    def get_int64(self, name: str, default: int | None = None) -> int:
        """Return a field of 64 bits, with a sign."""
        return self._get_int(name, default, INT64_MIN, INT64_MAX)

    def get_bool(self, name: str, *, default: bool | None = None) -> bool:
        """Return a field of true or false; the C++ client writes 1 and 0."""
        text = self.fields.get(name)
        if not text:
            if default is None:
                raise InvalidField(f"the header has no {name}")
            return default
        value = _BOOLS.get(text.lower())
        if value is None:
            raise InvalidField(f"{name} is {text[:32]!r}, not true or false")
        return value

    def _get_int(self, name: str, default: int | None, least: int, most: int) -> int:
        text = self.fields.get(name)
        if not text:
            if default is None:
                raise InvalidField(f"the header has no {name}")
            return default
        # Python's int() takes spaces, underscores, and digits of other scripts, too.
        digits = text.removeprefix("-")
        if len(text) > 20 or not (digits.isascii() and digits.isdigit()):
            raise InvalidField(f"{name} is {text[:32]!r}, not a number")
        value = int(text)
        if not least <= value <= most:
            raise InvalidField(f"{name} is {value}, out of range")
        return value


def decode_command(serialization: int, header: bytes, body: bytes) -> Command:
    """Return the command of a frame. RemotingError if its header can't be read."""
    if serialization == JSON:
        json = json_header.decode_header(header)
        language = json.language
        return Command(
            json.code,
            opaque=json.opaque,
            flag=json.flag,
            fields=json.extFields,
            body=body,
            remark=json.remark or "",
            language=language if isinstance(language, int) else _LANGUAGES.get(language, _OTHER),
            version=json.version,
        )
    if serialization == BINARY:
        code, language_code, version, opaque, flag, remark, fields = binary_header.decode_header(header)
        return Command(
            code,
            opaque=opaque,
            flag=flag,
            fields=fields,
            body=body,
            remark=remark,
            language=language_code,
            version=version,
        )
    raise RemotingError(f"headers of serialization {serialization} are unknown")


def encode_command(command: Command, serialization: int = JSON) -> bytes:
    """Return the frame of a command; a code beyond 16 bits is always written as JSON."""
    if serialization == BINARY and command.code in _SMALL_CODES:
        header = binary_header.encode_header(
            command.code,
            command.language,
            command.version,
            command.opaque,
            command.flag,
            command.remark,
            command.fields,
        )
        return join_frame(BINARY, header, command.body)
    language = _LANGUAGE_NAMES.get(command.language, _OTHER_NAME)
    header = json_header.encode_header(
        command.code, language, command.version, command.opaque, command.flag, command.remark, command.fields
    )
    return join_frame(JSON, header, command.body)
