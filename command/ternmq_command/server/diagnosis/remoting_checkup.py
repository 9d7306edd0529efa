"""The check of `ternmq doctor` for clients of RocketMQ 4: whether they reach what the name server tells them."""

import socket
from typing import TYPE_CHECKING

from ternmq_command.calls.remoting_calls import (
    RemotingCalls,
    RemotingUnreachable,
    current_remoting_access,
    find_masters,
)
from ternmq_command.server.diagnosis.checkup import Finding
from ternmq_command.terminal.failures import CommandFailure
from ternmq_common.addresses import parse_address

if TYPE_CHECKING:
    from collections.abc import Iterator

SUBJECT = "remoting"
TIMEOUT_S = 5.0


def check_remoting(address: str, *, is_wanted: bool) -> "Iterator[Finding]":
    """Ask the name server at that address for the brokers, and connect to each as clients do. Unless it `is_wanted`,
    there is no finding if nothing speaks the protocol there."""
    try:
        with RemotingCalls(address, current_remoting_access()) as name_server:
            brokers = find_masters(name_server)
    except CommandFailure as failure:
        if is_wanted or not isinstance(failure, RemotingUnreachable):
            advice = "start it with --remoting, or name another address with --remoting"
            yield Finding(SUBJECT, "problem", failure.what, advice)
        return
    unreached = {at: reason for at in sorted(set(brokers.values())) if (reason := _find_reason(at))}
    if unreached:
        at, reason = next(iter(unreached.items()))
        text = f"clients are sent to {at}, and it can't be reached from here: {reason}"
        yield Finding(SUBJECT, "problem", text, "start the proxies with --advertised-remoting HOST:PORT")
    elif brokers:
        yield Finding(SUBJECT, "ok", f"{address} names {len(brokers)} brokers, and each can be reached")
    else:
        yield Finding(SUBJECT, "warning", f"{address} names no broker", "are the brokers running?")


def _find_reason(address: str) -> str:
    """Return why nothing can connect to that address, empty if that works."""
    try:
        with socket.create_connection(parse_address(address), timeout=TIMEOUT_S):
            return ""
    except (OSError, ValueError) as error:
        return str(error)
