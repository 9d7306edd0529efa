"""The order in which receives read queues of different priorities, so that low ones do not starve.

A queue's number is its priority (`consuming.md, Priority`). In RocketMQ chance decides which receives do not begin
with the highest priority; here they are counted, so that a message of the lowest priority comes after a known number
of others.
"""


def turn_of_lower(turn: int, factor: int) -> int | None:
    """Return the number of `turn` among receives that begin with a lower priority, from 0; None if it is none of these.

    Of 100 receives `factor` begin with the highest priority. The others are spread evenly, the first one as late as
    can be.
    """
    others = 100 - factor
    return (turn + 1) * others // 100 - 1 if (turn + 1) * others % 100 < others else None
