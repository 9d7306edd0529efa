"""The pages of users: list, show, create, change, rotate the secret, delete.

Secrets     one that the server created is on the page that answers, and nowhere else: in no address, notice or log.
            One that a person typed is never shown again, not even with an error about it.
"""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ternmq_common.access.actions import AccessAction
from ternmq_common.access.users import SECRET_CHARACTERS_MAX, SECRET_CHARACTERS_MIN
from ternmq_console.pages.base.feature import PageFeature
from ternmq_console.pages.base.page_response import redirect_to, render_page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.forms import PageForm
    from ternmq_console.pages.base.page_context import PageContext

PAGE = 25
OVERLAP_DEFAULT = "24h"
ACTIONS = tuple(str(action) for action in AccessAction)


def user_path(name: str) -> str:
    return f"/console/users/{quote(name, safe='')}"


async def show_users(request: "Request", asking: "PageContext") -> "Response":
    """Show a page of users; for other users than super users, a link to their own page."""
    after = request.query_params.get("page", "")
    listed = await asking.call_if_allowed("ListUsers", limit=PAGE, page=after)
    return await render_page(
        request, asking, "access/users.html",
        title="Users", after=after, listed=listed, own_path=user_path(asking.session.name),
    )  # fmt: skip


async def show_user(
    request: "Request", asking: "PageContext", error: str = "", form: "PageForm | None" = None
) -> "Response":
    """Show one user; `resource` and `deny` in the query name the policy to change."""
    name = request.path_params["name"]
    described = (await asking.call_server("DescribeUser", name=name)).user
    is_own = name == asking.session.name
    return await render_page(
        request, asking, "access/user.html",
        title=name, described=described, is_own=is_own, may_change=not is_own or described.super,
        actions=ACTIONS, policy=_policy_form(described, request, form), overlap=OVERLAP_DEFAULT,
        error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


def _policy_form(described: "Message", request: "Request", form: "PageForm | None") -> dict[str, Any]:
    """Return the values of the policy form: those typed before, an existing policy's, or empty ones."""
    if form is not None and form.is_set("resource"):
        actions = [action for action in ACTIONS if form.is_set(f"action-{action}")]
        return {
            "resource": form.text("resource"),
            "deny": form.text("decision") == "deny",
            "actions": actions,
            "sources": form.text("sources"),
        }
    resource, deny = request.query_params.get("resource", ""), "deny" in request.query_params
    found = next((each for each in described.policies if (each.resource, each.deny) == (resource, deny)), None)
    if found is None:
        return {"resource": "", "deny": False, "actions": [], "sources": ""}
    actions = [action for action in ACTIONS if found.actions == "All" or action in found.actions.split(",")]
    return {"resource": resource, "deny": deny, "actions": actions, "sources": ", ".join(found.sources)}


async def show_new_user(
    request: "Request", asking: "PageContext", error: str = "", form: "PageForm | None" = None
) -> "Response":
    """Show the form for a new user."""
    return await render_page(
        request, asking, "access/new_user.html",
        title="New user", secret_least=SECRET_CHARACTERS_MIN, secret_most=SECRET_CHARACTERS_MAX,
        error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


async def create_user(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Create a user."""
    name = form.text("name")
    answer = await asking.call_server("CreateUser", name=name, secret=form.raw("secret"), super=form.is_set("super"))
    change = f"{'Super user' if answer.user.super else 'User'} {name} was created."
    return await _show_secret(request, asking, name, change, answer.secret)


async def rotate_secret(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Give a user a new secret; the session continues if it is its own user."""
    name = request.path_params["name"]
    fields: dict[str, Any] = {"overlap": form.parse_duration("overlap")} if form.is_set("overlap") else {}
    rotated = await asking.call_server("RotateSecret", user=name, secret=form.raw("secret"), **fields)
    if name == asking.session.name:
        asking.session.secret = rotated.secret or form.raw("secret")
    return await _show_secret(request, asking, name, f"User {name} has a new secret.", rotated.secret)


async def _show_secret(request: "Request", asking: "PageContext", name: str, change: str, secret: str) -> "Response":
    """Show a secret that the server created, on a page that is not cached; without one, redirect to the user."""
    if not secret:
        asking.session.notice = change
        return redirect_to(user_path(name))
    return await render_page(
        request, asking, "access/secret.html", title=f"Secret of {name}", name=name, change=change, secret=secret
    )


async def change_user(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Change whether a user is a super user, and whether it is enabled."""
    name = request.path_params["name"]
    fields = {field: form.text(field) == "yes" for field in ("super", "enabled") if form.is_set(field)}
    changed = (await asking.call_server("UpdateUser", name=name, **fields)).user
    kind, state = "a super user" if changed.super else "an ordinary user", "enabled" if changed.enabled else "disabled"
    asking.session.notice = f"User {name} is {kind} now, and {state}."
    return redirect_to(user_path(name))


async def delete_user(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Delete a user."""
    name = request.path_params["name"]
    form.check_confirmation(name)
    await asking.call_server("DeleteUser", name=name)
    asking.session.notice = f"User {name} was deleted."
    return redirect_to("/console/users")


FEATURE = PageFeature(
    homes=(("/users", "Users"),),
    shown={"/users": show_users, "/users/{name}": show_user, "/new/user": show_new_user},
    done={
        "/new/user": (create_user, show_new_user),
        "/users/{name}/change": (change_user, show_user),
        "/users/{name}/secret": (rotate_secret, show_user),
        "/users/{name}/delete": (delete_user, show_user),
    },
    is_of_access=True,
)
