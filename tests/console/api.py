"""The JSON API, for what a test needs beside its browser: Playwright's own loop is in this thread, so plain calls."""

import http.client
import json
from contextlib import closing
from typing import Any

from tests.support.json_api import PREFIX, basic

Json = Any


def ask(
    address: str, method: str, path: str, body: Json = None, *, user: str = "", secret: str = "", status: int = 0
) -> Json:
    """What was answered; with `status` it must be that, else 2xx."""
    headers = {"content-type": "application/json"} if body is not None else {}
    headers |= basic(user, secret) if user else {}
    with closing(http.client.HTTPConnection(address, timeout=20)) as connection:
        connection.request(method, PREFIX + path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        said = response.read()
    assert response.status == status if status else response.status < 300, (response.status, said)
    return json.loads(said) if said else None
