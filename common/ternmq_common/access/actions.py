"""The actions that policies allow or deny, as RocketMQ names them."""

import enum


class AccessAction(enum.Flag):
    """One or more actions; an empty set is what only super users may do."""

    PUB = enum.auto()
    SUB = enum.auto()
    CREATE = enum.auto()
    UPDATE = enum.auto()
    DELETE = enum.auto()
    GET = enum.auto()
    LIST = enum.auto()

    @classmethod
    def parse_actions(cls, text: str) -> "AccessAction":
        """Parse `Pub,Sub`, in any case; `All` is every action; ValueError with the unknown word."""
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
        """The form that `parse_actions` reads, in the order of declaration."""
        return "All" if self == ALL_ACTIONS else ",".join(member.name.title() for member in self if member.name)


ALL_ACTIONS = (
    AccessAction.PUB
    | AccessAction.SUB
    | AccessAction.CREATE
    | AccessAction.UPDATE
    | AccessAction.DELETE
    | AccessAction.GET
    | AccessAction.LIST
)
