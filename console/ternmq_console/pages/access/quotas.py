"""The pages of quotas: the limits of users, topics, groups and clients, and the names that use most of them.

Quotas hold without access control too, where all clients are one user.
"""

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from ternmq_common.resources import quotas
from ternmq_common.resources.quotas import DEFAULT_NAME, QuotaKind
from ternmq_common.resources.resource_settings import Limit
from ternmq_common.units import parse_size, render_duration
from ternmq_console.pages.base.feature import PageFeature
from ternmq_console.pages.base.forms import BadForm
from ternmq_console.pages.base.page_response import redirect_to, render_page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.forms import PageForm
    from ternmq_console.pages.base.page_context import PageContext

PAGE = 50
KINDS = tuple(kind.value for kind in QuotaKind)
HOME = "/console/quotas"


class LimitField(NamedTuple):
    """A limit: its `name` in the call, `says` as label with the unit, and the `kinds` of quotas that have it."""

    name: str
    says: str
    kinds: str
    kind: Limit

    @property
    def is_bytes(self) -> bool:
        return self.kind.is_size

    def form_text(self, quota: "Message") -> str:
        """Return the limit as text for a form; empty for none."""
        return self.kind.format_number(getattr(quota, self.name)) if quota.HasField(self.name) else ""

    def shown(self, quota: "Message") -> str:
        """Return the limit as text for a table; the quota must have it."""
        return self.form_text(quota) if self.is_bytes else f"{getattr(quota, self.name):,}"

    def parse_field(self, form: "PageForm") -> int:
        """Parse the limit in a form; raises BadForm."""
        if not self.is_bytes:
            return form.parse_integer(self.name, least=1)
        text = form.text(self.name)
        try:
            return parse_size(text)
        except ValueError:
            raise BadForm(self.name, f"{text!r} is no size; 10MiB and 500KiB are") from None


LIMITS = tuple(
    LimitField(
        each.name, each.form.label, ", ".join(f"{kind}s" for kind in KINDS if kind in each.kind.kinds), each.kind
    )
    for each in quotas.LIMITS
    if each.form is not None and isinstance(each.kind, Limit)
)


def _quota_title(quota: "Message") -> str:
    return f"{quota.kind}:{quota.name}"


def _change_path(quota: "Message") -> str:
    return f"/console/new/quota?{urlencode({'kind': quota.kind, 'name': quota.name})}"


async def show_quotas(
    request: "Request", asking: "PageContext", error: str = "", form: "PageForm | None" = None
) -> "Response":
    """Show a page of quotas, and the names that use most of them."""
    del form
    search, after = request.query_params.get("search", ""), request.query_params.get("page", "")
    listed = await asking.call_if_allowed("ListQuotas")
    found = [] if listed is None else [each for each in listed.quotas if search.lower() in _quota_title(each).lower()]
    behind = [each for each in sorted(found, key=_quota_title) if _quota_title(each) > after]
    return await render_page(
        request, asking, "access/quotas.html",
        title="Quotas", search=search, after=after, listed=listed, rows=behind[:PAGE],
        following=_quota_title(behind[PAGE - 1]) if len(behind) > PAGE else "", limits=LIMITS, change_path=_change_path,
        error=error, status=400 if error else 200,
    )  # fmt: skip


async def show_new_quota(
    request: "Request", asking: "PageContext", error: str = "", form: "PageForm | None" = None
) -> "Response":
    """Show the form for a quota, filled with the existing one that the query names, if any."""
    kind, name = request.query_params.get("kind", ""), request.query_params.get("name", "")
    there = await _find_quota(kind, name, asking) if name else None
    written = {"kind": kind, "name": name, "burst": ""}
    if form is not None:
        written = {field: form.text(field) for field in ("kind", "name", "burst", *(each.name for each in LIMITS))}
    elif there is not None:
        written |= {each.name: each.form_text(there) for each in LIMITS}
        written["burst"] = render_duration(there.burst.ToMilliseconds())
    return await render_page(
        request, asking, "access/new_quota.html",
        title="Change a quota" if there is not None else "New quota", is_there=there is not None, kinds=KINDS,
        limits=LIMITS, default=DEFAULT_NAME, written=written, error=error, status=400 if error else 200,
    )  # fmt: skip


async def _find_quota(kind: str, name: str, asking: "PageContext") -> "Message | None":
    listed = await asking.call_if_allowed("ListQuotas")
    found = [] if listed is None else [each for each in listed.quotas if (each.kind, each.name) == (kind, name)]
    return found[0] if found else None


async def put_quota(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Set a quota by the form; an empty field means no limit."""
    del request
    fields: dict[str, Any] = {"kind": form.text("kind"), "name": form.text("name")}
    fields |= {each.name: each.parse_field(form) for each in LIMITS if form.is_set(each.name)}
    if form.is_set("burst"):
        fields["burst"] = form.parse_duration("burst")
    answer = await asking.call_server("PutQuota", quota=fields)
    title = f"{fields['kind']}:{fields['name']}"
    asking.session.notice = f"Quota {title} was {'created' if answer.created else 'changed'}."
    return redirect_to(HOME)


async def remove_quota(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Remove a quota; it can be set again, so no confirmation is needed."""
    del request
    kind, name = form.raw("kind"), form.raw("name")
    await asking.call_server("DeleteQuota", kind=kind, name=name)
    asking.session.notice = f"Quota {kind}:{name} was removed."
    return redirect_to(HOME)


FEATURE = PageFeature(
    homes=(("/quotas", "Quotas"),),
    shown={"/quotas": show_quotas, "/new/quota": show_new_quota},
    done={"/new/quota": (put_quota, show_new_quota), "/quotas/remove": (remove_quota, show_quotas)},
)
