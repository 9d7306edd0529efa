"""Users: who may call this server; made, changed, given other secrets, and deleted.

Secrets     one that the server made is on the page that answers, and nowhere else: in no address, no notice, no log.
            One that somebody wrote is not shown again either, not even beside what was wrong with it.
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
    """A page of them; who is no super user is led to himself."""
    after = request.query_params.get("page", "")
    listed = await asking.ask_if_allowed("ListUsers", limit=PAGE, page=after)
    return await page(
        request, asking, "access/users.html",
        title="Users", after=after, listed=listed, own_path=path_of(asking.session.name),
    )  # fmt: skip


async def user(request: "Request", asking: "Asking", error: str = "", form: "Form | None" = None) -> "Response":
    """One user. `resource` and `deny` in the address name the policy that is to be changed."""
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
    """What the form of a policy begins with: what was written, or a policy of the user's, or nothing."""
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
    """The form for another one."""
    return await page(
        request, asking, "access/new_user.html",
        title="New user", secret_least=SECRET_CHARACTERS_MIN, secret_most=SECRET_CHARACTERS_MAX,
        error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


async def create(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Make one."""
    name = form.text("name")
    made = await asking.ask("CreateUser", name=name, secret=form.raw("secret"), super=form.is_set("super"))
    said = f"{'Super user' if made.user.super else 'User'} {name} was made."
    return await _told(request, asking, name, said, made.secret)


async def rotate(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Give one another secret; who does that to himself stays signed in."""
    name = request.path_params["name"]
    asked: dict[str, Any] = {"overlap": form.duration("overlap")} if form.is_set("overlap") else {}
    rotated = await asking.ask("RotateSecret", user=name, secret=form.raw("secret"), **asked)
    if name == asking.session.name:
        asking.session.secret = rotated.secret or form.raw("secret")
    return await _told(request, asking, name, f"User {name} has another secret.", rotated.secret)


async def _told(request: "Request", asking: "Asking", name: str, said: str, secret: str) -> "Response":
    """With a secret that the server made the page that shows it; the answer to a form is kept nowhere."""
    if not secret:
        asking.session.notice = said
        return moved_to(path_of(name))
    return await page(
        request, asking, "access/secret.html", title=f"Secret of {name}", name=name, said=said, secret=secret
    )


async def change(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Make one a super user or not, enabled or not."""
    name = request.path_params["name"]
    asked = {field: form.text(field) == "yes" for field in ("super", "enabled") if form.is_set(field)}
    changed = (await asking.ask("UpdateUser", name=name, **asked)).user
    kind, state = "a super user" if changed.super else "an ordinary user", "enabled" if changed.enabled else "disabled"
    asking.session.notice = f"User {name} is {kind} now, and {state}."
    return moved_to(path_of(name))


async def delete(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Delete one."""
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
