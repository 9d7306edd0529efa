"""The console: routes of all pages and forms, sign-in, and the pages for errors."""

import asyncio
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from ternmq_common.access.users import NO_USERS
from ternmq_console.operator_calls import NotSignedIn, ServerBusy
from ternmq_console.pages import groups, plots, topics
from ternmq_console.pages.access import audit, policies, quotas, users
from ternmq_console.pages.base.forms import SESSION_FIELD, BadForm, PageForm
from ternmq_console.pages.base.page_context import CallRefused, PageContext, client_host
from ternmq_console.pages.base.page_response import redirect_to, render_page
from ternmq_console.pages.base.rendering import render_template
from ternmq_console.pages.base.sessions import COOKIE, SessionStore
from ternmq_console.pages.cluster import brokers, clients, processes, replicas
from ternmq_console.pages.dead_letters import feature as dead_letters
from ternmq_console.pages.messages import feature as messages
from ternmq_console.pages.waiting import timers, transactions
from ternmq_console.path_prefix import without_root
from ternmq_runtime.http.basic import HttpCaller

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from ternmq_console.api.long_calls import LongCalls
    from ternmq_console.operator_calls import OperatorCalls
    from ternmq_console.pages.base.feature import Do, PageFeature, Show, ShowAgain
    from ternmq_console.pages.base.sessions import ConsoleSession

    Answering = Callable[[Request], Awaitable[Response]]

PREFIX = "/console"
FEATURES: "tuple[PageFeature, ...]" = (
    topics.FEATURE,
    groups.FEATURE,
    messages.FEATURE,
    dead_letters.FEATURE,
    timers.FEATURE,
    transactions.FEATURE,
    brokers.FEATURE,
    replicas.FEATURE,
    clients.FEATURE,
    processes.FEATURE,
    users.FEATURE,
    policies.FEATURE,
    quotas.FEATURE,
    audit.FEATURE,
    plots.FEATURE,
)
HOME, LOGIN = f"{PREFIX}/topics", f"{PREFIX}/login"
# A pause after a wrong secret, against guessing.
_WRONG_S = 0.5
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}


class ConsolePages:
    """The pages of one server.

    `is_guarded` is true with access control. `grafana` is an address or empty, `root` the path prefix of a reverse
    proxy (`path_prefix.py`).
    """

    def __init__(
        self, desk: "OperatorCalls", long_calls: "LongCalls", *, is_guarded: bool, grafana: str = "", root: str = ""
    ) -> None:
        self._desk = desk
        self._long_calls = long_calls
        self._grafana = grafana
        self._root = root
        self._is_guarded = is_guarded
        self._sessions = SessionStore()
        self._static_files = _read_static_files()
        self._features = [each for each in FEATURES if is_guarded or not each.is_of_access]
        self._navigation = [(PREFIX + path, name) for each in self._features for path, name in each.homes]

    def build_routes(self) -> list[Route]:
        """Return the routes below PREFIX, and those that redirect there."""
        return [
            Route("/", self._redirect_home),
            Route(PREFIX, self._redirect_home),
            Route(f"{PREFIX}/", self._redirect_home),
            Route(f"{PREFIX}/static/{{name}}", self._static_file),
            Route(LOGIN, self._show_login, methods=["GET", "POST"]),
            Route(f"{PREFIX}/logout", self._form_handler(self._end_session, topics.show_new_topic), methods=["POST"]),
            *(
                Route(PREFIX + path, self._page_handler(show))
                for each in self._features
                for path, show in each.shown.items()
            ),
            *(
                Route(PREFIX + path, self._form_handler(*doing), methods=["POST"])
                for each in self._features
                for path, doing in each.done.items()
            ),
        ]

    async def _redirect_home(self, _: "Request") -> Response:
        return redirect_to(HOME)

    async def _static_file(self, request: "Request") -> Response:
        name = request.path_params["name"]
        if name not in self._static_files:
            return HTMLResponse(await self._problem_text("There is no such file", ""), 404)
        kind = _TYPES[name.rpartition(".")[2]]
        return Response(self._static_files[name], headers={"cache-control": "max-age=3600"}, media_type=kind)

    async def _problem_text(self, title: str, text: str) -> str:
        return await render_template(
            "problem.html", self._root, title=title, text=text, user="", token="", notice="", here=""
        )

    # --- sign-in

    async def _show_login(self, request: "Request") -> Response:
        following = _own_path(request.query_params.get("next", ""))
        if not self._is_guarded:
            return redirect_to(following)
        if request.method != "POST":
            return HTMLResponse(await render_template("login.html", self._root, following=following, error="", name=""))
        name = ""
        try:
            form = await PageForm.read_from(request)
            name = form.text("name")
            await self._desk.sign_in(HttpCaller(name, form.raw("secret"), client_host(request)))
        except NotSignedIn as refusal:
            await asyncio.sleep(_WRONG_S)
            has_no_users = str(refusal) == NO_USERS
            error = f"{NO_USERS}." if has_no_users else "No user of this server has that access key and secret."
        except (BadForm, ServerBusy) as problem:
            error = f"{problem}."
        else:
            session_id, _ = self._sessions.begin_session(name, form.raw("secret"))
            return self._with_cookie(redirect_to(following), session_id, request)
        text = await render_template("login.html", self._root, following=following, error=error, name=name)
        return HTMLResponse(text, 401)

    async def _end_session(self, request: "Request", asking: PageContext, form: PageForm) -> Response:
        del asking, form
        self._sessions.end_session(request.cookies.get(COOKIE, ""))
        answer = redirect_to(LOGIN if self._is_guarded else HOME)
        answer.delete_cookie(COOKIE, path=self._root + PREFIX)
        return answer

    def _find_session(self, request: "Request") -> "ConsoleSession | None":
        return self._sessions.find_session(request.cookies.get(COOKIE, ""), is_used="hx-request" not in request.headers)

    def _to_login(self, request: "Request") -> Response:
        """Redirect to the sign-in page; a request of a page's script redirects the whole page."""
        login = f"{LOGIN}?next={quote(self._requested_path(request), safe='')}"
        if "hx-request" in request.headers:
            return Response(status_code=204, headers={"hx-redirect": login})
        return RedirectResponse(login, 303)

    def _requested_path(self, request: "Request") -> str:
        """Return the requested page with its query, to return to after the sign-in; the address may be a sent link."""
        if request.method != "GET":
            return HOME
        url = request.headers.get(
            "hx-current-url", str(request.url)
        )  # the address of the whole page, if its script requests a part
        try:
            parts = urlsplit(url)
        except ValueError:
            return HOME
        path = without_root(parts.path, self._root)
        return f"{path}?{parts.query}" if parts.query else path

    def _with_cookie(self, response: Response, session_id: str, request: "Request") -> Response:
        path, is_secure = self._root + PREFIX, request.url.scheme == "https"
        response.set_cookie(COOKIE, session_id, path=path, secure=is_secure, httponly=True, samesite="lax")
        return response

    # --- pages and forms

    def _page_handler(self, show: "Show") -> "Answering":
        async def answer_page(request: "Request") -> Response:
            session, session_id = self._find_session(request), ""
            if session is None and not self._is_guarded:
                session_id, session = self._sessions.begin_session("", "")
            if session is None:
                return self._to_login(request)
            asking = PageContext(self._desk, session, client_host(request), self._navigation, self._grafana, self._root)
            response = await self._answer_errors(request, asking, show(request, asking))
            if session_id:
                response = self._with_cookie(response, session_id, request)
            return self._count_download(response, asking)

        return answer_page

    def _count_download(self, response: Response, asking: PageContext) -> Response:
        """Count a download, which may have any length, as a long call of its user."""
        if not isinstance(response, StreamingResponse):
            return response
        user = asking.session.name if self._is_guarded else asking.host
        return self._long_calls.counted_answer(user, response)

    def _form_handler(self, do: "Do", again: "ShowAgain") -> "Answering":
        async def answer_form(request: "Request") -> Response:
            session = self._find_session(request)
            if session is None:
                return self._to_login(request)
            asking = PageContext(self._desk, session, client_host(request), self._navigation, self._grafana, self._root)
            try:
                form = await PageForm.read_from(request)
            except BadForm as error:
                return await _problem_page(request, asking, "That can't be done", error.message, 400)
            if not session.has_token(form.raw(SESSION_FIELD)):
                text = "This form does not belong to this session. Open the page again, and repeat it."
                return await _problem_page(request, asking, "That can't be done", text, 403)

            async def carry_out_form() -> Response:
                try:
                    return await do(request, asking, form)
                except BadForm as error:
                    return await again(request, asking, error.message, form)
                except CallRefused as error:
                    if error.is_missing:
                        raise
                    return await again(request, asking, error.message, form)

            return self._count_download(await self._answer_errors(request, asking, carry_out_form()), asking)

        return answer_form

    async def _answer_errors(self, request: "Request", asking: PageContext, work: "Awaitable[Response]") -> Response:
        """Await the response; errors become pages, or a redirection to the sign-in."""
        try:
            return await work
        except CallRefused as error:
            title = "There is no such thing" if error.is_missing else "That can't be done"
            return await _problem_page(request, asking, title, error.message, error.status)
        except NotSignedIn:
            self._sessions.end_session(request.cookies.get(COOKIE, ""))
            return self._to_login(request)
        except ServerBusy as error:
            return await _problem_page(request, asking, "The server does not answer now", f"{error}", 503)


async def _problem_page(request: "Request", asking: PageContext, title: str, text: str, status: int) -> Response:
    return await render_page(request, asking, "problem.html", title=title, text=text, status=status)


def _own_path(following: str) -> str:
    """Return the page to show after the sign-in: the requested one if it is one of ours."""
    parts = urlsplit(following)
    is_own = not parts.scheme and not parts.netloc and following.startswith(f"{PREFIX}/") and "\\" not in following
    return following if is_own and following != LOGIN else HOME


def _read_static_files() -> dict[str, bytes]:
    """Read all static files, by their names."""
    folder = files("ternmq_console.pages").joinpath("static")
    found = [*folder.iterdir(), *folder.joinpath("vendor").iterdir()]
    return {file.name: file.read_bytes() for file in found if file.is_file()}
