"""Users, their secrets and policies, as the registry has them at one moment."""

import re
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TYPE_CHECKING, Final

from ternmq_common.access.resources import AccessResource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_common.access.actions import AccessAction
    from ternmq_common.access.decision import AccessRequest, Source
    from ternmq_common.shard.ranges import Int64

USER_CHARACTERS_MAX = 64
SECRETS_MAX: Final = 2
SECRET_CHARACTERS_MIN, SECRET_CHARACTERS_MAX = 12, 256
POLICIES_MAX = 256
SOURCES_MAX = 32
NO_USERS: Final = (
    "access control is on, and this server has no user yet, so no client can sign a call: its operator creates the "
    "first one by starting it with --init-user NAME (init_user)"
)
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}", re.ASCII)
_SECRET = re.compile(r"[!-~]+", re.ASCII)

Range = IPv4Network | IPv6Network


def find_user_name_problem(name: str) -> str | None:
    """Why no user may have that name. The name is the access key, which ends at the first `/` or `,` of a header."""
    if _NAME.fullmatch(name):
        return None
    shown = repr(name[:USER_CHARACTERS_MAX])
    return f"user {shown}: 1 to {USER_CHARACTERS_MAX} letters, digits and the characters _ . @ - are allowed"


def find_secret_problem(secret: str) -> str | None:
    """Why it is no valid secret, without the secret itself."""
    if not SECRET_CHARACTERS_MIN <= len(secret) <= SECRET_CHARACTERS_MAX or not _SECRET.fullmatch(secret):
        return f"a secret has {SECRET_CHARACTERS_MIN} to {SECRET_CHARACTERS_MAX} ASCII characters, without spaces"
    return None


def parse_ranges(text: str) -> tuple[Range, ...]:
    """Parse `10.0.0.0/8, ::1`; no ranges of an empty text. ValueError with the invalid one."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(parts) > SOURCES_MAX:
        raise ValueError(f"at most {SOURCES_MAX} source ranges are allowed")
    try:
        return tuple(ip_network(part) for part in parts)
    except ValueError as error:
        raise ValueError(f"this is no source range: {error}") from None


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """A policy: actions that a user may do or, unless it `allows`, may not; from these ranges of addresses, or from
    anywhere."""

    resource: AccessResource
    actions: "AccessAction"
    allows: bool = True
    sources: tuple[Range, ...] = ()

    def applies_to(self, question: "AccessRequest", source: "Source") -> bool:
        if not (self.actions & question.actions and self.resource.covers_name(question.kind, question.name)):
            return False
        if not self.sources:
            return True
        if source is None:
            return not self.allows
        return any(source in span for span in self.sources)

    def __str__(self) -> str:
        origin = f" from {','.join(map(str, self.sources))}" if self.sources else ""
        return f"{'allow' if self.allows else 'deny'} {self.actions} on {self.resource}{origin}"


@dataclass(frozen=True, slots=True)
class UserSecret:
    """A secret for signatures; `text` is in no repr.

    `valid_until_ms` is when it ends, in milliseconds since the epoch by the stack's clock; None: never.
    """

    text: str = field(repr=False)
    created_ms: "Int64"
    valid_until_ms: "Int64 | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessUser:
    """A user. A user who is not enabled can't sign in.

    `secrets` are one or, while they are rotated, two; none if this process lacks the key that they are encrypted with.
    """

    name: str
    is_super: bool = False
    is_enabled: bool = True
    created_ms: "Int64" = 0
    secrets: tuple[UserSecret, ...] = ()
    policies: tuple[AccessPolicy, ...] = ()


@dataclass(frozen=True, slots=True)
class AccessSnapshot:
    """All users by name. Callers that cache decisions compare snapshots by identity: a change creates another one.

    `sealed` has them as rows of the registry, with encrypted secrets, for a process that keeps a copy; empty if it has
    no use for secrets.
    """

    users: "Mapping[str, AccessUser]" = field(default_factory=dict)
    sealed: "Mapping[str, Mapping[str, object]]" = field(default_factory=dict, repr=False, compare=False)
