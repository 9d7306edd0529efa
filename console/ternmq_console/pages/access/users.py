"""The pages of users: list, show, create, change, rotate the secret, delete.

Secrets     one that the server created is on the page that answers, and nowhere else: in no address, notice or log.
            One that a person typed is never shown again, not even with an error about it.
"""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ternmq_common.access.actions import Action
from ternmq_common.access.users import SECRET_CHARACTERS_MAX, SECRET_CHARACTERS_MIN
from ternmq_console.pages.base.answering import moved_to, page
from ternmq_console.pages.base.feature import Feature

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.desk import Message
    from ternmq_console.pages.base.asking import Asking
    from ternmq_console.pages.base.forms import Form

PAGE = 25
OVERLAP_DEFAULT = "24h"
ACTIONS = tuple(str(action) for action in Action)


def path_of(name: str) -> str:
    return f"/console/users/{quote(name, safe='')}"


async def users(request: "Request", asking: "Asking") -> "Response":
    """Show a page of users; for other users than super users, a link to their own page."""
    after = request.query_params.get("page", "")
    listed = await asking.ask_if_allowed("ListUsers", limit=PAGE, page=after)
    return await page(
        request, asking, "access/users.html",
        title="Users", after=after, listed=listed, own_path=path_of(asking.session.name),
    )  # fmt: skip


async def user(request: "Request", asking: "Asking", error: str = "", form: "Form | None" = None) -> "Response":
    """Show one user; `resource` and `deny` in the query name the policy to change."""
    name = request.path_params["name"]
    described = (await asking.ask("DescribeUser", name=name)).user
    is_own = name == asking.session.name
    return await page(
        request, asking, "access/user.html",
        title=name, described=described, is_own=is_own, may_change=not is_own or described.super,
        actions=ACTIONS, policy=_policy(described, request, form), overlap=OVERLAP_DEFAULT,
        error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


def _policy(described: "Message", request: "Request", form: "Form | None") -> dict[str, Any]:
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


async def new(request: "Request", asking: "Asking", error: str = "", form: "Form | None" = None) -> "Response":
    """Show the form for a new user."""
    return await page(
        request, asking, "access/new_user.html",
        title="New user", secret_least=SECRET_CHARACTERS_MIN, secret_most=SECRET_CHARACTERS_MAX,
        error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


async def create(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Create a user."""
    name = form.text("name")
    made = await asking.ask("CreateUser", name=name, secret=form.raw("secret"), super=form.is_set("super"))
    said = f"{'Super user' if made.user.super else 'User'} {name} was created."
    return await _told(request, asking, name, said, made.secret)


async def rotate(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Give a user a new secret; the session continues if it is its own user."""
    name = request.path_params["name"]
    asked: dict[str, Any] = {"overlap": form.duration("overlap")} if form.is_set("overlap") else {}
    rotated = await asking.ask("RotateSecret", user=name, secret=form.raw("secret"), **asked)
    if name == asking.session.name:
        asking.session.secret = rotated.secret or form.raw("secret")
    return await _told(request, asking, name, f"User {name} has a new secret.", rotated.secret)


async def _told(request: "Request", asking: "Asking", name: str, said: str, secret: str) -> "Response":
    """Show a secret that the server created, on a page that is not cached; without one, redirect to the user."""
    if not secret:
        asking.session.notice = said
        return moved_to(path_of(name))
    return await page(
        request, asking, "access/secret.html", title=f"Secret of {name}", name=name, said=said, secret=secret
    )


async def change(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Change whether a user is a super user, and whether it is enabled."""
    name = request.path_params["name"]
    asked = {field: form.text(field) == "yes" for field in ("super", "enabled") if form.is_set(field)}
    changed = (await asking.ask("UpdateUser", name=name, **asked)).user
    kind, state = "a super user" if changed.super else "an ordinary user", "enabled" if changed.enabled else "disabled"
    asking.session.notice = f"User {name} is {kind} now, and {state}."
    return moved_to(path_of(name))


async def delete(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Delete a user."""
    name = request.path_params["name"]
    form.confirm(name)
    await asking.ask("DeleteUser", name=name)
    asking.session.notice = f"User {name} was deleted."
    return moved_to("/console/users")


FEATURE = Feature(
    homes=(("/users", "Users"),),
    shown={"/users": users, "/users/{name}": user, "/new/user": new},
    done={
        "/new/user": (create, new),
        "/users/{name}/change": (change, user),
        "/users/{name}/secret": (rotate, user),
        "/users/{name}/delete": (delete, user),
    },
    is_of_access=True,
)
