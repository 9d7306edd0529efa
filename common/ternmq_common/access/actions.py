"""What can be done with a resource, as RocketMQ names it."""

import enum


class Action(enum.Flag):
    """One or more; none at all is what only super users may."""

    PUB = enum.auto()
    SUB = enum.auto()
    CREATE = enum.auto()
    UPDATE = enum.auto()
    DELETE = enum.auto()
    GET = enum.auto()
    LIST = enum.auto()

    @classmethod
    def parse(cls, text: str) -> "Action":
        """Those of `Pub,Sub`, in any case; `All` is each; ValueError names the word that is none."""
        actions = cls(0)
        for word in text.split(","):
            name = word.strip().upper()
            if name == "ALL":
                actions |= ALL_ACTIONS
            elif name in cls.__members__:
                actions |= cls[name]
            else:
                known = ", ".join(member.name.title() for member in cls if member.name)
                raise ValueError(f"{word.strip()!r} is no action; known are {known}, All")
        return actions

    def __str__(self) -> str:
        """As `parse` reads it, in the order in which they are declared."""
        return "All" if self == ALL_ACTIONS else ",".join(member.name.title() for member in self if member.name)


ALL_ACTIONS = Action.PUB | Action.SUB | Action.CREATE | Action.UPDATE | Action.DELETE | Action.GET | Action.LIST
