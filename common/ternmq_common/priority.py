"""In which order receives look at queues of different priorities, so that low ones do not starve.

A queue's number is its priority (`consuming.md, Priority`). RocketMQ lets chance decide which receives do not begin
with the highest; here it is counted, so that a message of the lowest priority comes after a known number of others.
"""


def turn_of_lower(turn: int, factor: int) -> int | None:
    """Of 100 receives `factor` begin with the highest priority: which of the others receive `turn` is, None if it is
    none of them. They are spread evenly, the first one comes as late as can be."""
    others = 100 - factor
    return (turn + 1) * others // 100 - 1 if (turn + 1) * others % 100 < others else None
