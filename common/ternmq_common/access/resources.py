"""The resources of policies: `Topic:orders`, `Group:billing-*`, `Cluster:*`, or `*` for everything."""

import enum
from dataclasses import dataclass

RESOURCE_CHARACTERS_MAX = 320
_ANY = "*"


class ResourceKind(enum.StrEnum):
    """`CLUSTER` is what belongs to no topic and no group: brokers, clients, users, the server itself."""

    ANY = "*"
    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"


@dataclass(frozen=True, slots=True)
class AccessResource:
    """Resources of a kind with this name or, if it is a prefix, with names that begin with it; an empty prefix is any
    name."""

    kind: ResourceKind
    name: str
    is_prefix: bool

    @classmethod
    def parse_resource(cls, text: str) -> "AccessResource":
        """Parse a resource; ValueError with the mistake."""
        if len(text) > RESOURCE_CHARACTERS_MAX:
            raise ValueError(f"a resource has {RESOURCE_CHARACTERS_MAX} characters at most")
        if text == _ANY:
            return cls(ResourceKind.ANY, "", True)
        word, colon, name = text.partition(":")
        kind = next((kind for kind in ResourceKind if kind.value.lower() == word.lower()), None)
        if not colon or kind is None or kind is ResourceKind.ANY:
            raise ValueError(f"{text!r} is no resource: Topic:NAME, Group:NAME, Cluster:NAME or * is needed")
        is_prefix = name.endswith(_ANY)
        name = name.removesuffix(_ANY)
        if _ANY in name or not (name or is_prefix) or not name.isprintable() or " " in name:
            raise ValueError(f"{text!r} is no resource: a name is needed, or the beginning of one with * behind it")
        return cls(kind, name, is_prefix)

    def __str__(self) -> str:
        if self.kind is ResourceKind.ANY:
            return _ANY
        return f"{self.kind.value}:{self.name}{_ANY if self.is_prefix else ''}"

    def covers_name(self, kind: ResourceKind, name: str) -> bool:
        """Whether the resource of that name is among them."""
        if self.kind is not ResourceKind.ANY and self.kind is not kind:
            return False
        return name.startswith(self.name) if self.is_prefix else name == self.name
