"""Notifies systemd of the state of a server by sd_notify's protocol: datagrams to the socket $NOTIFY_SOCKET."""

import logging
import os
import socket

_log = logging.getLogger(__name__)
VARIABLE = "NOTIFY_SOCKET"


def notify_systemd(state: str) -> None:
    """Send a state, such as `READY=1`, to systemd if it listens; a failure is only logged."""
    address = os.environ.get(VARIABLE, "")
    if not address.startswith(("/", "@")):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.connect("\0" + address[1:] if address[0] == "@" else address)
            sock.send(state.encode())
    except OSError as error:
        _log.warning("cannot notify systemd of %s: %s", state.splitlines()[0], error)
