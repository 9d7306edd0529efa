"""The JSON form of a command's header.

Fields of a request's code are in `extFields`. Java and Go write each as a text; the C++ client and clients based on it
write numbers and booleans too. A null is a field that is not there.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, MsgspecError, Struct, ValidationError
from msgspec.json import Decoder, Encoder

from ternmq_rpc.remoting.frames import RemotingError

_Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


class _AnyHeader(Struct, gc=False):
    """The fields of a header; unknown ones are ignored."""

    code: _Int32
    opaque: _Int32 = 0
    flag: _Int32 = 0
    language: str | int = "OTHER"
    version: _Int32 = 0
    remark: str | None = None


class JsonHeader(_AnyHeader, gc=False):
    """A header. `extFields` are the fields of its code as texts."""

    extFields: dict[str, str] | None = None  # noqa: N815 - as the protocol names it


class _MixedHeader(_AnyHeader, gc=False):
    """A header as any client writes it."""

    extFields: dict[str, str | int | float | bool | None] | None = None  # noqa: N815 - as the protocol names it


class _Written(Struct, gc=False, omit_defaults=True):
    """The fields of `JsonHeader`, in Java's order."""

    code: int
    extFields: Mapping[str, str]  # noqa: N815 - as the protocol names it
    flag: int
    language: str
    opaque: int
    remark: str | None = None
    serializeTypeCurrentRPC: str = ""  # noqa: N815 - as the protocol names it
    version: int = -1


_OF_TEXTS = Decoder(JsonHeader)
_MIXED = Decoder(_MixedHeader)
_ENCODER = Encoder()
_TEXTS_OF_BOOLS = {True: "true", False: "false"}


def decode_header(header: bytes) -> JsonHeader:
    """Return the header. RemotingError if it is no JSON, or has a field of the wrong type."""
    try:
        return _OF_TEXTS.decode(header)
    except ValidationError:
        return _decode_mixed(header)
    except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _bad_header(error) from error


def _decode_mixed(header: bytes) -> JsonHeader:
    try:
        mixed = _MIXED.decode(header)
    except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _bad_header(error) from error
    fields = mixed.extFields or {}
    texts = {name: _as_text(value) for name, value in fields.items() if value is not None}
    return JsonHeader(mixed.code, mixed.opaque, mixed.flag, mixed.language, mixed.version, mixed.remark, texts)


def _bad_header(error: Exception) -> RemotingError:
    return RemotingError(f"a header that is not as it must be: {error}")


def _as_text(value: str | float | bool) -> str:
    if isinstance(value, str):
        return value
    return _TEXTS_OF_BOOLS[value] if isinstance(value, bool) else str(value)


def encode_header(
    code: int, language: str, version: int, opaque: int, flag: int, remark: str, fields: Mapping[str, str]
) -> bytes:
    """Return the JSON of a header; an empty remark is left out, fields never are: clients read those of a success
    without a look whether there are any."""
    return _ENCODER.encode(_Written(code, fields, flag, language, opaque, remark or None, "JSON", version))
