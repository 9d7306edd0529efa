"""Who signed a request."""

import hmac
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.access.users import AccessSnapshot, AccessUser, UserSecret
from ternmq_common.signing import authorization_header
from ternmq_proxy.access.authentication import NotAuthenticated, RequestAuthentication, SigningKey

DATE = "20261123T120000Z"
NOON_MS = 1795435200000
FIRST, SECOND = "the-first-secret", "the-second-secret"
ALICE = AccessUser(name="alice", secrets=(UserSecret(FIRST, 0, NOON_MS + 1000), UserSecret(SECOND, 0)))


class Server:
    def __init__(self, *users: AccessUser, window_ms: int = 1000) -> None:
        self.now_ms = self.wall_ms = NOON_MS
        self.have(*users)
        self.authentication = RequestAuthentication(
            lambda: self.snapshot,
            now_ms=lambda: self.now_ms,
            wall_ms=lambda: self.wall_ms,
            window_ms=window_ms,
            local_time=False,
        )

    def have(self, *users: AccessUser) -> None:
        self.snapshot = AccessSnapshot({user.name: user for user in users})

    def user(self, authorization: str, date: str = DATE) -> str | None:
        try:
            return self.authentication.authenticate_signature(authorization, date).user
        except NotAuthenticated:
            return None


def test_both_secrets_are_taken_until_one_ends() -> None:
    server = Server(ALICE)
    first, second = (authorization_header("alice", secret, DATE) for secret in (FIRST, SECOND))
    assert (server.user(first), server.user(second)) == ("alice", "alice")
    server.now_ms += 1000
    assert (server.user(first), server.user(second)) == (None, "alice")


def test_hexadecimal_digits_of_either_case_and_what_follows_the_key_are_taken() -> None:
    server = Server(ALICE)
    header = authorization_header("alice", FIRST, DATE)
    head, signature = header.rsplit("=", 1)
    assert server.user(f"{head}={signature.lower()}") == "alice"
    assert server.user(header.replace("alice", "alice/cn-hangzhou/RocketMQ")) == "alice"


def test_a_user_who_is_disabled_deleted_or_has_other_secrets_is_nobody() -> None:
    header = authorization_header("alice", SECOND, DATE)
    server = Server(ALICE)
    identity = server.authentication.authenticate_signature(header, DATE)
    for users in ((replace(ALICE, is_enabled=False),), (), (replace(ALICE, secrets=ALICE.secrets[:1]),)):
        server.have(*users)
        assert server.user(header) is None
        assert not server.authentication.is_same(identity, header, DATE)
        assert not server.authentication.is_still(identity)
    server.have(ALICE)
    assert server.authentication.is_still(identity)
    assert not server.authentication.is_same(identity, header, DATE)  # of another snapshot: verified anew


def test_what_was_verified_holds_for_the_same_headers_while_the_date_is_fresh() -> None:
    server = Server(ALICE)
    header = authorization_header("alice", SECOND, DATE)
    identity = server.authentication.authenticate_signature(header, DATE)
    assert server.authentication.is_same(identity, header, DATE)
    assert not server.authentication.is_same(identity, authorization_header("alice", FIRST, DATE), DATE)
    server.wall_ms += 1001
    assert not server.authentication.is_same(identity, header, DATE)


def test_without_a_window_any_text_may_be_signed() -> None:
    server = Server(ALICE, window_ms=0)
    assert server.user(authorization_header("alice", SECOND, "anything"), "anything") == "alice"


def test_users_without_secrets_are_nobody() -> None:
    server = Server(replace(ALICE, secrets=()))
    assert server.user(authorization_header("alice", "", DATE)) is None
    assert server.user(authorization_header("", "", DATE)) is None


@given(st.text(max_size=80), st.text(max_size=40))
def test_no_forgery_is_taken(signature: str, date: str) -> None:
    server = Server(ALICE, window_ms=0)
    assert server.user(f"MQv2-HMAC-SHA1 Credential=alice, Signature={signature}", date) is None
    assert server.user(signature, date) is None


def test_a_bit_of_the_signature_or_of_the_date_makes_it_another() -> None:
    server = Server(ALICE, window_ms=0)
    header = authorization_header("alice", FIRST, DATE)
    head, signature = header.rsplit("=", 1)
    for at in range(len(signature)):
        other = f"{signature[:at]}{'0' if signature[at] != '0' else '1'}{signature[at + 1 :]}"
        assert server.user(f"{head}={other}") is None
    assert server.user(header, "20261123T120001Z") is None


def test_neither_error_nor_identity_shows_a_secret() -> None:
    server = Server(ALICE)
    header = authorization_header("alice", FIRST, DATE)
    identity = server.authentication.authenticate_signature(header, DATE)
    assert FIRST not in repr(identity)
    assert header not in repr(identity)
    with pytest.raises(NotAuthenticated) as refused:
        server.authentication.authenticate_signature(authorization_header("alice", "another-secret", DATE), DATE)
    assert "alice" not in refused.value.message


def test_a_password_is_one_of_the_secrets() -> None:
    server = Server(ALICE)
    assert server.authentication.authenticate_password("alice", SECOND).user == "alice"
    for name, secret in (("alice", "another-secret"), ("bob", SECOND)):
        with pytest.raises(NotAuthenticated):
            server.authentication.authenticate_password(name, secret)


@given(st.text(max_size=300), st.text(max_size=100))
def test_signatures_are_those_of_hmac(secret: str, date: str) -> None:
    key = SigningKey(secret)
    assert (
        key.compute_mac(date.encode(errors="replace"))
        == hmac.new(secret.encode(errors="replace"), date.encode(errors="replace"), "sha1").hexdigest()
    )
