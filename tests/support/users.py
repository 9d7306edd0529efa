"""Users for tests of access control, whatever keeps them: a snapshot that a test changes as it likes."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from ternmq_common.access.actions import AccessAction
from ternmq_common.access.resources import AccessResource
from ternmq_common.access.secret_keys import generate_key
from ternmq_common.access.users import AccessPolicy, AccessSnapshot, AccessUser, UserSecret, parse_ranges
from ternmq_common.signing import AUTHORIZATION_HEADER, DATE_HEADER, authorization_header
from ternmq_proxy.catalog.catalog import Catalog

if TYPE_CHECKING:
    import pytest

    from tests.support.embedded import Metadata

SECRET = "a-secret-of-a-test"


def access_settings() -> str:
    """Lines of a proxy's settings: it asks who calls, and `root` is the first user."""
    key = generate_key()
    return f'access_control = true\nsecrets_key = "{key}"\ninit_user = "root"\ninit_secret = "{SECRET}"\n'


class Users:
    """All users; each change makes another snapshot, as the registry does."""

    def __init__(self) -> None:
        self.snapshot = AccessSnapshot()

    def serve(self, monkeypatch: "pytest.MonkeyPatch") -> "Users":
        """Have all catalogs of this process know these users."""
        monkeypatch.setattr(Catalog, "access_snapshot", property(lambda _: self.snapshot))
        return self

    def put(self, name: str, *policies: str, is_super: bool = False, secret: str = SECRET) -> AccessUser:
        """Have this user, with policies such as `allow Topic:orders Pub,Sub 10.0.0.0/8`."""
        user = AccessUser(
            name=name, is_super=is_super, secrets=(UserSecret(secret, 0),), policies=tuple(map(parsed_policy, policies))
        )
        return self.change(user)

    def change(self, user: AccessUser) -> AccessUser:
        self.snapshot = AccessSnapshot({**self.snapshot.users, user.name: user})
        return user

    def disable(self, name: str) -> None:
        self.change(replace(self.snapshot.users[name], is_enabled=False))

    def delete(self, name: str) -> None:
        self.snapshot = AccessSnapshot({each: user for each, user in self.snapshot.users.items() if each != name})


def parsed_policy(text: str) -> AccessPolicy:
    """`allow|deny RESOURCE ACTIONS [SOURCES]`."""
    decision, resource, actions, *sources = text.split()
    return AccessPolicy(
        AccessResource.parse_resource(resource),
        AccessAction.parse_actions(actions),
        decision == "allow",
        parse_ranges(",".join(sources)),
    )


def signed(
    name: str, client_id: str = "", *, secret: str = SECRET, at_s: float | None = None, date: str = ""
) -> "Metadata":
    """The metadata of a call of that user, signed now, with the client id."""
    date = date or time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at_s))
    headers = ((DATE_HEADER, date), (AUTHORIZATION_HEADER, authorization_header(name, secret, date)))
    return (("x-mq-client-id", client_id or f"client-of-{name}"), *headers)
