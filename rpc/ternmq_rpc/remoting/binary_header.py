"""The binary form of a command's header, which clients call ROCKETMQ.

Header    code i16 | language u8 | version i16 | opaque i32 | flag i32 | remark length i32 | remark |
          fields' length i32 | fields; big-endian, texts in UTF-8.
Field     name length i16 | name | value length i32 | value.
"""

import struct
from collections.abc import Mapping
from typing import Final

from ternmq_rpc.remoting.frames import RemotingError

_FIXED: Final = struct.Struct(">hBhiii")
_NAME_LENGTH: Final = struct.Struct(">h")
_LENGTH: Final = struct.Struct(">i")


def decode_header(header: bytes) -> tuple[int, int, int, int, int, str, dict[str, str]]:
    """Return code, language, version, opaque, flag, remark and fields.

    RemotingError: a length passes the header's end, or a text is no UTF-8.
    """
    try:
        code, language, version, opaque, flag, remark_length = _FIXED.unpack_from(header)
        at = _FIXED.size
        remark, at = _read_text(header, at, remark_length)
        [fields_length] = _LENGTH.unpack_from(header, at)
        at += _LENGTH.size
        if fields_length != len(header) - at and fields_length > 0:
            raise RemotingError(f"a header whose fields take {fields_length} bytes has {len(header) - at}")
        fields = _read_fields(header, at) if fields_length > 0 else {}
    except (struct.error, UnicodeDecodeError) as error:
        raise RemotingError(f"a binary header that is not as it must be: {error}") from error
    return code, language, version, opaque, flag, remark, fields


def _read_fields(header: bytes, at: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    end = len(header)
    while at < end:
        [length] = _NAME_LENGTH.unpack_from(header, at)
        name, at = _read_text(header, at + _NAME_LENGTH.size, length)
        [length] = _LENGTH.unpack_from(header, at)
        fields[name], at = _read_text(header, at + _LENGTH.size, length)
    return fields


def _read_text(header: bytes, at: int, length: int) -> tuple[str, int]:
    stop = at + length
    if length < 0 or stop > len(header):
        raise RemotingError(f"a text of {length} bytes in a header of which {len(header) - at} are left")
    return header[at:stop].decode(), stop


def encode_header(
    code: int, language: int, version: int, opaque: int, flag: int, remark: str, fields: Mapping[str, str]
) -> bytes:
    """Return the bytes of a header. struct.error if a number does not fit into its field."""
    remark_bytes = remark.encode()
    parts = [_FIXED.pack(code, language, version, opaque, flag, len(remark_bytes)), remark_bytes, b""]
    fields_length = 0
    for name, value in fields.items():
        name_bytes, value_bytes = name.encode(), value.encode()
        parts += (_NAME_LENGTH.pack(len(name_bytes)), name_bytes, _LENGTH.pack(len(value_bytes)), value_bytes)
        fields_length += _NAME_LENGTH.size + len(name_bytes) + _LENGTH.size + len(value_bytes)
    parts[2] = _LENGTH.pack(fields_length)
    return b"".join(parts)
