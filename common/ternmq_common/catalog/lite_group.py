"""The settings that make a consumer group a lite group: its LITE topic, and how its clients share lite topics.

Text      `orders` or `orders,model=exclusive,quota=100,wildcard,reset=taken+unsubscribed`; defaults are left out
Model     `shared`: of several clients that subscribe a lite topic one gets each batch; `exclusive`: the last client to
          subscribe has it for itself, and the former one is notified to drop it
Quota     how many lite topics one client may subscribe
Wildcard  a client subscribes all lite topics of the topic, also those created later
Reset     the group's offset in a lite topic is forgotten when another client takes it over (`taken`), or when its
          subscriber drops it (`unsubscribed`)
"""

from dataclasses import dataclass
from enum import StrEnum

from ternmq_common.errors import ErrorCode, MessagingError

DEFAULT_LITE_QUOTA = 2000
LITE_QUOTA_MAX = 100_000
LITE_RESETS = ("taken", "unsubscribed")


class LiteModel(StrEnum):
    """How clients that subscribe to the same lite topic get its messages."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


@dataclass(frozen=True, slots=True)
class LiteGroup:
    """The settings of a lite group; see the module."""

    bind: str
    exclusive: bool = False
    quota: int = DEFAULT_LITE_QUOTA
    wildcard: bool = False
    resets_when_taken: bool = False
    resets_when_unsubscribed: bool = False

    def __str__(self) -> str:
        words = [self.bind]
        if self.exclusive:
            words.append("model=exclusive")
        if self.quota != DEFAULT_LITE_QUOTA:
            words.append(f"quota={self.quota}")
        if self.wildcard:
            words.append("wildcard")
        reasons = (self.resets_when_taken, self.resets_when_unsubscribed)
        resets = [name for name, is_on in zip(LITE_RESETS, reasons, strict=True) if is_on]
        if resets:
            words.append("reset=" + "+".join(resets))
        return ",".join(words)


def parse_lite_group(text: str) -> LiteGroup | None:
    """Parse the text; None for the empty text: no lite group. BAD_REQUEST if it is invalid."""
    if not text:
        return None
    bind, *words = text.split(",")
    values = {"model": "shared", "quota": str(DEFAULT_LITE_QUOTA), "wildcard": "", "reset": ""}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in values or (not equals) != (name == "wildcard"):
            raise _lite_group_error(text, f"{word!r} is none of model=, quota=, wildcard and reset=")
        values[name] = value or "yes"
    model, quota = values["model"], values["quota"]
    resets = set(values["reset"].split("+")) - {""}
    if not bind:
        raise _lite_group_error(text, "it names no topic")
    if model not in {*LiteModel}:
        raise _lite_group_error(text, f"the model {model!r} is none of {' and '.join(LiteModel)}")
    if not (quota.isascii() and quota.isdigit() and 1 <= int(quota[:9]) <= LITE_QUOTA_MAX and len(quota) < 9):
        raise _lite_group_error(text, f"the quota is from 1 to {LITE_QUOTA_MAX}")
    if not resets <= set(LITE_RESETS):
        raise _lite_group_error(text, f"reset is none of {' and '.join(LITE_RESETS)}")
    return LiteGroup(
        bind, model == "exclusive", int(quota), bool(values["wildcard"]), "taken" in resets, "unsubscribed" in resets
    )


def find_rebinding_problem(group: str, before: LiteGroup | None, bind: str | None) -> str:
    """Why the group can't be bound to that topic, None for no topic; empty if that changes nothing."""
    bound = None if before is None else before.bind
    if bind == bound:
        return ""
    found = "is no lite group" if bound is None else f"is a lite group that is bound to topic {bound!r}"
    return f"consumer group {group!r} {found}, and that can't change; delete the group, or use another"


def _lite_group_error(text: str, why: str) -> MessagingError:
    return MessagingError(ErrorCode.BAD_REQUEST, f"lite group {text[:200]!r}: {why}")
