"""Recall handles as remoting clients have them.

Java's reads a handle before it sends it: it must be of version 1, which is topic, broker, time and message id, and it
skips what follows. So the server's own handle, which has a tag behind these, is shown under that version.
"""

import base64
import binascii

_OWN, _SHOWN = b"v2 ", b"v1 "


def show_handle(own: str) -> str:
    """Return the handle for clients."""
    data = _decode_base64(own)
    assert data.startswith(_OWN)
    return base64.urlsafe_b64encode(_SHOWN + data[len(_OWN) :]).decode()


def read_handle(shown: str) -> str:
    """Return the server's own handle; an invalid one stays as it is, and is refused where it is used."""
    try:
        data = _decode_base64(shown)
    except (binascii.Error, ValueError):
        return shown
    if not data.startswith(_SHOWN):
        return shown
    return base64.urlsafe_b64encode(_OWN + data[len(_SHOWN) :]).rstrip(b"=").decode()


def _decode_base64(text: str) -> bytes:
    text = text.rstrip("=")
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
