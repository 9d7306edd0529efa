"""Text that others wrote and that HTML would take for a script or an image, on every page that shows it."""

from datetime import timedelta
from urllib.parse import quote, urlencode

import pytest

from ternmq import Message
from ternmq.blocking import Producer
from tests.console.api import ask
from tests.console.browsing import Visit
from tests.console.conftest import ROOT
from tests.console.test_access_pages import audit_file
from tests.console.test_dead_letters import make_letters
from tests.console.test_dead_letters import path_of as letters_of
from tests.console.test_messages import find, path_of
from tests.console.test_signing_in import as_root, sign_in
from tests.support.console_site import audit_line
from tests.support.stack import ServerProcess

HOSTILE = ("<script>alert(1)</script>", '"><img/src=x/onerror=alert(1)>')
hostile = pytest.mark.parametrize("text", HOSTILE, ids=["script", "image"])


def look(window: Visit, path: str, shown: str = "") -> None:
    """Open a page: no element of the text is in it. `Visit` fails if anything was logged or a dialog came."""
    window.go(path)
    window.page.wait_for_load_state("networkidle")
    window.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert shown in window.text, path
    assert window.page.locator("img, main script").count() == 0, path
    assert window.violations() == [], path


@hostile
def test_messages_letters_timers_and_searches_show_text(
    window: Visit, server: ServerProcess, name: str, text: str
) -> None:
    make_letters(server, name, [text.encode()], keys=[text], properties={"region": text})
    ask(server.addresses["http"], "POST", "/topics", {"name": f"{name}-later", "queues": 1, "type": "DELAY"})
    with Producer(server.addresses["grpc"], topics=[f"{name}-later"]) as producer:
        producer.send(Message(f"{name}-later", text.encode(), keys=[text], delay=timedelta(hours=1)))
    look(window, find(name, key=text), text)
    look(window, path_of(name, 0), text)
    look(window, f"/console/messages/send?{urlencode({'topic': text, 'key': text})}")
    look(window, letters_of(name), text)
    look(window, letters_of(name, key=text))
    look(window, f"/console/topics/{quote(text.replace('/', ''))}")
    for page in ("topics", "groups", "messages", "dead-letters", "quotas", "clients", "timers", "transactions"):
        look(window, f"/console/{page}?{urlencode({'search': text, 'topic': text, 'page': text})}")


@hostile
def test_users_policies_quotas_and_the_audit_log_show_text(
    guest: Visit, guarded: ServerProcess, name: str, text: str
) -> None:
    fields = dict.fromkeys(("user", "source", "client", "why", "resource"), text) | {"call": name}
    with audit_file(guarded).open("a") as file:
        file.write(f"{audit_line(**fields)}\n")
    as_root(guarded, "PUT", f"/users/{ROOT}/policies", {"resource": f"Topic:{name}", "actions": "Get"})
    guest.go("/console/users")
    sign_in(guest)
    look(guest, f"/console/audit?{urlencode({'call': name})}", text)
    look(guest, f"/console/audit?{urlencode({'user': text, 'since': text})}")
    look(guest, f"/console/users?{urlencode({'search': text})}")
    look(guest, f"/console/users/{ROOT}?{urlencode({'resource': text})}")
    look(guest, f"/console/new/quota?{urlencode({'kind': 'user', 'name': text})}")
