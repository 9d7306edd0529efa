"""What the front needs to know of a request's handler."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ternmq_proxy.fronts.remoting.call import RemotingCall
from ternmq_rpc.remoting.commands import Command


@dataclass(frozen=True, slots=True)
class Handler:
    """Serves the requests of one code. `name` is the operation's for rights, audit and metrics; `may_wait`: it may wait
    for messages; `complete_refusal` adds to the answer of a refused request."""

    name: str
    serve: Callable[[RemotingCall], Awaitable[Command]]
    may_wait: bool = False
    complete_refusal: Callable[[Command], None] | None = None
