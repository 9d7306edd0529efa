"""The forms for a user's policies on the user's page: add, replace, remove."""

from typing import TYPE_CHECKING

from ternmq_console.pages.access.users import ACTIONS, path_of, user
from ternmq_console.pages.base.answering import moved_to
from ternmq_console.pages.base.feature import Feature
from ternmq_console.pages.base.forms import BadForm

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.pages.base.asking import Asking
    from ternmq_console.pages.base.forms import Form


async def put(request: "Request", asking: "Asking", form: "Form") -> "Response":
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
    await asking.ask("PutPolicy", user=name, policy=policy)
    asking.session.notice = f"User {name} has a policy that {'denies' if is_deny else 'allows'} {policy['resource']}."
    return moved_to(path_of(name))


async def delete(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Remove a policy."""
    name, resource, is_deny = request.path_params["name"], form.raw("of"), form.text("decision") == "deny"
    await asking.ask("DeletePolicy", user=name, resource=resource, deny=is_deny)
    asking.session.notice = f"User {name} has no policy any more that {'denies' if is_deny else 'allows'} {resource}."
    return moved_to(path_of(name))


FEATURE = Feature(
    homes=(),
    shown={},
    done={"/users/{name}/policies": (put, user), "/users/{name}/policies/delete": (delete, user)},
    is_of_access=True,
)
