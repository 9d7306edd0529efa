"""The pages of quotas: the limits of users, topics, groups and clients, and the names that use most of them.

Quotas hold without access control too, where all clients are one user.
"""

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from ternmq_common.quotas import DEFAULT_NAME, KINDS_OF_LIMITS, QuotaKind
from ternmq_common.units import SIZE_UNITS, in_largest_unit, parsed_size, rendered_duration
from ternmq_console.pages.base.answering import moved_to, page
from ternmq_console.pages.base.feature import Feature
from ternmq_console.pages.base.forms import BadForm

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.desk import Message
    from ternmq_console.pages.base.asking import Asking
    from ternmq_console.pages.base.forms import Form

PAGE = 50
KINDS = tuple(kind.value for kind in QuotaKind)
HOME = "/console/quotas"
_BINARY = {unit: size for unit, size in SIZE_UNITS.items() if "i" in unit or unit == "B"}


class Limit(NamedTuple):
    """A limit: its `name` in the call, `says` as label with the unit, and the `kinds` of quotas that have it."""

    name: str
    says: str
    kinds: str

    @property
    def is_bytes(self) -> bool:
        return self.name.startswith("bytes")

    def text(self, quota: "Message") -> str:
        """Return the limit as text for a form; empty for none."""
        if not quota.HasField(self.name):
            return ""
        value = getattr(quota, self.name)
        return in_largest_unit(value, _BINARY) if self.is_bytes else str(value)

    def shown(self, quota: "Message") -> str:
        """Return the limit as text for a table; the quota must have it."""
        return self.text(quota) if self.is_bytes else f"{getattr(quota, self.name):,}"

    def read(self, form: "Form") -> int:
        """Parse the limit in a form; raises BadForm."""
        if not self.is_bytes:
            return form.whole(self.name, least=1)
        text = form.text(self.name)
        try:
            return parsed_size(text)
        except ValueError:
            raise BadForm(self.name, f"{text!r} is no size; 10MiB and 500KiB are") from None


_SAYS = {
    "messages_in": "Messages sent, per second",
    "bytes_in": "Bytes sent, per second",
    "messages_out": "Messages delivered, per second",
    "bytes_out": "Bytes delivered, per second",
    "in_flight": "Messages in flight",
    "connections": "Connections",
    "topics_per_hour": "Topics created by use, per hour",
}
LIMITS = tuple(
    Limit(name, _SAYS[name], ", ".join(f"{kind.value}s" for kind in QuotaKind if kind in kinds))
    for name, kinds in KINDS_OF_LIMITS.items()
)


def _title(quota: "Message") -> str:
    return f"{quota.kind}:{quota.name}"


def _change_path(quota: "Message") -> str:
    return f"/console/new/quota?{urlencode({'kind': quota.kind, 'name': quota.name})}"


async def quotas(request: "Request", asking: "Asking", error: str = "", form: "Form | None" = None) -> "Response":
    """Show a page of quotas, and the names that use most of them."""
    del form
    search, after = request.query_params.get("search", ""), request.query_params.get("page", "")
    listed = await asking.ask_if_allowed("ListQuotas")
    found = [] if listed is None else [each for each in listed.quotas if search.lower() in _title(each).lower()]
    behind = [each for each in sorted(found, key=_title) if _title(each) > after]
    return await page(
        request, asking, "access/quotas.html",
        title="Quotas", search=search, after=after, listed=listed, rows=behind[:PAGE],
        following=_title(behind[PAGE - 1]) if len(behind) > PAGE else "", limits=LIMITS, change_path=_change_path,
        error=error, status=400 if error else 200,
    )  # fmt: skip


async def new(request: "Request", asking: "Asking", error: str = "", form: "Form | None" = None) -> "Response":
    """Show the form for a quota, filled with the existing one that the query names, if any."""
    kind, name = request.query_params.get("kind", ""), request.query_params.get("name", "")
    there = await _there(kind, name, asking) if name else None
    written = {"kind": kind, "name": name, "burst": ""}
    if form is not None:
        written = {field: form.text(field) for field in ("kind", "name", "burst", *(each.name for each in LIMITS))}
    elif there is not None:
        written |= {each.name: each.text(there) for each in LIMITS}
        written["burst"] = rendered_duration(there.burst.ToMilliseconds())
    return await page(
        request, asking, "access/new_quota.html",
        title="Change a quota" if there is not None else "New quota", is_there=there is not None, kinds=KINDS,
        limits=LIMITS, default=DEFAULT_NAME, written=written, error=error, status=400 if error else 200,
    )  # fmt: skip


async def _there(kind: str, name: str, asking: "Asking") -> "Message | None":
    listed = await asking.ask_if_allowed("ListQuotas")
    found = [] if listed is None else [each for each in listed.quotas if (each.kind, each.name) == (kind, name)]
    return found[0] if found else None


async def put(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Set a quota by the form; an empty field means no limit."""
    del request
    asked: dict[str, Any] = {"kind": form.text("kind"), "name": form.text("name")}
    asked |= {each.name: each.read(form) for each in LIMITS if form.is_set(each.name)}
    if form.is_set("burst"):
        asked["burst"] = form.duration("burst")
    made = await asking.ask("PutQuota", quota=asked)
    title = f"{asked['kind']}:{asked['name']}"
    asking.session.notice = f"Quota {title} was {'created' if made.created else 'changed'}."
    return moved_to(HOME)


async def remove(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Remove a quota; it can be set again, so no confirmation is needed."""
    del request
    kind, name = form.raw("kind"), form.raw("name")
    await asking.ask("DeleteQuota", kind=kind, name=name)
    asking.session.notice = f"Quota {kind}:{name} was removed."
    return moved_to(HOME)


FEATURE = Feature(
    homes=(("/quotas", "Quotas"),),
    shown={"/quotas": quotas, "/new/quota": new},
    done={"/new/quota": (put, new), "/quotas/remove": (remove, quotas)},
)
