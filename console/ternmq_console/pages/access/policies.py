"""The forms for a user's policies on the user's page: add, replace, remove."""

from typing import TYPE_CHECKING

from ternmq_console.pages.access.users import ACTIONS, show_user, user_path
from ternmq_console.pages.base.feature import PageFeature
from ternmq_console.pages.base.forms import BadForm
from ternmq_console.pages.base.page_response import redirect_to

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.pages.base.forms import PageForm
    from ternmq_console.pages.base.page_context import PageContext


async def put_policy(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Add a policy, or replace the one with the same resource and decision."""
    name = request.path_params["name"]
    actions = ",".join(action for action in ACTIONS if form.is_set(f"action-{action}"))
    if not actions:
        raise BadForm("actions", "choose at least one action")
    is_deny = form.text("decision") == "deny"
    policy = {
        "resource": form.text("resource"),
        "actions": actions,
        "deny": is_deny,
        "sources": [each.strip() for each in form.text("sources").split(",") if each.strip()],
    }
    await asking.call_server("PutPolicy", user=name, policy=policy)
    asking.session.notice = f"User {name} has a policy that {'denies' if is_deny else 'allows'} {policy['resource']}."
    return redirect_to(user_path(name))


async def delete_policy(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Remove a policy."""
    name, resource, is_deny = request.path_params["name"], form.raw("of"), form.text("decision") == "deny"
    await asking.call_server("DeletePolicy", user=name, resource=resource, deny=is_deny)
    asking.session.notice = f"User {name} has no policy any more that {'denies' if is_deny else 'allows'} {resource}."
    return redirect_to(user_path(name))


FEATURE = PageFeature(
    homes=(),
    shown={},
    done={
        "/users/{name}/policies": (put_policy, show_user),
        "/users/{name}/policies/delete": (delete_policy, show_user),
    },
    is_of_access=True,
)
