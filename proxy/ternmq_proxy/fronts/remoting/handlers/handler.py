"""Describes the handler of a request to the front."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ternmq_proxy.fronts.remoting.call import RemotingCall
from ternmq_rpc.remoting.commands import Command

Answered = Callable[[Command | None, Exception | None], None]
"""Called with the answer to a request, or with the error for which it is refused."""


@dataclass(frozen=True, slots=True)
class Handler:
    """Serves the requests of one code. `name` is the operation's for rights, audit and metrics; `may_wait`: it may wait
    for messages; `in_steps`: it goes on without its client, as half of its change would be of no use to anyone;
    `complete_refusal` adds to the answer of a refused request. `begin` serves most requests without a
    task: it returns False, with nothing done, for the others."""

    name: str
    serve: Callable[[RemotingCall], Awaitable[Command]]
    may_wait: bool = False
    in_steps: bool = False
    complete_refusal: Callable[[Command], None] | None = None
    begin: Callable[[RemotingCall, Answered], bool] | None = None
