"""Authenticates requests by their signature (`overview.md, Signing`).

The signature is HMAC-SHA1 over the text of the date, with one of the user's secrets; the date must be current. Every
failure gets the same answer after the same time: an unknown access key is tried with keys of no user.

Calls of a connection carry the same two headers for a second or so. The first verification returns a `UserIdentity`,
which checks without another HMAC whether it is valid for the following calls.
"""

import secrets
from dataclasses import dataclass, field
from hashlib import sha1
from hmac import compare_digest
from typing import TYPE_CHECKING, Final

from ternmq_common.access.users import NO_USERS, SECRETS_MAX, AccessSnapshot, UserSecret
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.signing import SignedAuthorization
from ternmq_proxy.access.signed_date import parse_date

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.access.users import AccessUser

    Keys = list[tuple[UserSecret | None, "SigningKey"]]

_ALWAYS: Final = (-(1 << 62), 1 << 62)
_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


class NotAuthenticated(MessagingError):
    """The caller is not authenticated. The text is the same for all reasons, unless there are no users at all.
    `access_key` is the name that the caller claims, if any; `reason` is for the audit log alone."""

    def __init__(self, access_key: str, reason: str, *, has_users: bool = True) -> None:
        self.access_key, self.reason = access_key, reason
        text = "the request is not signed by a user of this server: check access key and secret, and the client's clock"
        super().__init__(ErrorCode.UNAUTHORIZED, text if has_users else NO_USERS)


@dataclass(frozen=True, slots=True)
class UserIdentity:
    """A user and the secret that signed, both as in `snapshot`. `authorization` and `date_text` are the headers that
    prove it, and are left out of the repr. The date is valid from `from_ms` to `until_ms` of the machine's clock."""

    user: str
    secret: UserSecret = field(repr=False)
    snapshot: AccessSnapshot = field(repr=False)
    authorization: str = field(repr=False)
    date_text: str = field(repr=False)
    from_ms: int
    until_ms: int


class RequestAuthentication:
    """Authenticates requests. `snapshot` returns the current users. `now_ms` is the stack's clock, by which secrets
    expire; `wall_ms` is the machine's, by which clients' dates are checked."""

    def __init__(
        self,
        snapshot: "Callable[[], AccessSnapshot]",
        *,
        now_ms: "Callable[[], int]",
        wall_ms: "Callable[[], int]",
        window_ms: int,
        local_time: bool,
    ) -> None:
        self._snapshot = snapshot
        self._now_ms, self._wall_ms = now_ms, wall_ms
        self._window_ms, self._local_time = window_ms, local_time
        self._keyed = snapshot()
        self._keys: dict[str, Keys] = {}  # by user, of `_keyed`
        self._counted: tuple[AccessSnapshot, bool] | None = None
        self._nobodys: Keys = [(None, SigningKey(secrets.token_hex(16))) for _ in range(SECRETS_MAX)]

    def authenticate_signature(self, authorization: str, date_text: str) -> UserIdentity:
        """Return the user who signed this date. Raises NotAuthenticated."""
        header = SignedAuthorization.parse_header(authorization)
        if header is None:
            raise self._refusal_error("", "no credentials" if not authorization else "a malformed header")
        snapshot = self._snapshot()
        secret = self._find_secret(header, date_text, snapshot)
        span = self._accepted_span(date_text)
        if secret is None:
            raise self._refusal_error(header.access_key, "an unknown user or a wrong signature")
        if span is None:
            raise self._refusal_error(header.access_key, "a date outside of the window")
        return UserIdentity(header.access_key, secret, snapshot, authorization, date_text, *span)

    def authenticate_content(self, access_key: str, signature: bytes, content: bytes) -> UserIdentity:
        """Return the user who signed the content; `signature` is the HMAC-SHA1's bytes. Raises NotAuthenticated."""
        snapshot = self._snapshot()
        secret = self._secret_of(access_key, _ClaimedContent(signature, content), snapshot)
        if secret is None:
            reason = "an unknown user or a wrong signature" if access_key else "no credentials"
            raise self._refusal_error(access_key, reason)
        return UserIdentity(access_key, secret, snapshot, "", "", *_ALWAYS)

    @property
    def has_users(self) -> bool:
        """Whether there are any users."""
        snapshot = self._snapshot()
        if self._counted is None or self._counted[0] is not snapshot:
            self._counted = snapshot, any(user.is_enabled for user in snapshot.users.values())
        return self._counted[1]

    def too_many_guesses(self, access_key: str) -> NotAuthenticated:
        """Return the error for a request that is not examined, since the host failed too often with this access key."""
        return self._refusal_error(
            access_key, "too many wrong ones of this access key from this address in this second"
        )

    def _refusal_error(self, access_key: str, reason: str) -> NotAuthenticated:
        return NotAuthenticated(access_key, reason, has_users=self.has_users)

    def is_same(self, identity: UserIdentity, authorization: str, date_text: str) -> bool:
        """Return whether these headers certainly prove, at this moment, what those of the identity proved."""
        return (
            identity.date_text == date_text
            and identity.authorization == authorization
            and identity.snapshot is self._snapshot()
            and self._is_valid(identity.secret)
            and identity.from_ms <= self._wall_ms() <= identity.until_ms
        )

    def is_still(self, identity: UserIdentity) -> bool:
        """Return whether the user still exists and has that secret, for calls that go on."""
        user = _find_enabled_user(self._snapshot(), identity.user)
        return user is not None and any(
            own.text == identity.secret.text and self._is_valid(own) for own in user.secrets
        )

    def authenticate_password(self, name: str, password: str) -> UserIdentity:
        """Return the user with this secret, for protocols without signatures. Raises NotAuthenticated."""
        snapshot = self._snapshot()
        secret = self._secret_of(name, _ClaimedPassword(password), snapshot)
        if secret is None:
            raise self._refusal_error(name, "an unknown user or a wrong secret" if name else "no credentials")
        return UserIdentity(name, secret, snapshot, "", "", *_ALWAYS)

    def _find_secret(self, header: SignedAuthorization, date_text: str, snapshot: AccessSnapshot) -> UserSecret | None:
        return self._secret_of(header.access_key, _ClaimedSignature(header.signature, date_text), snapshot)

    def _secret_of(
        self, name: str, proof: "_ClaimedSignature | _ClaimedContent | _ClaimedPassword", snapshot: AccessSnapshot
    ) -> UserSecret | None:
        """Return the user's secret that gives the proof, if it is valid. All secrets are tried for every user, which
        always takes the same time."""
        found = None
        for secret, key in self._keys_of(name, snapshot):
            if proof.is_by(key) and secret is not None and self._is_valid(secret):
                found = secret
        return found if _find_enabled_user(snapshot, name) is not None else None

    def _keys_of(self, name: str, snapshot: AccessSnapshot) -> "Keys":
        if snapshot is not self._keyed:
            self._keyed = snapshot
            self._keys.clear()
        keys = self._keys.get(name)
        if keys is None:
            user = snapshot.users.get(name)
            if user is None:
                return self._nobodys
            keys = [(secret, SigningKey(secret.text)) for secret in user.secrets[:SECRETS_MAX]]
            keys = self._keys[name] = [*keys, *self._nobodys[len(keys) :]]
        return keys

    def _is_valid(self, secret: UserSecret) -> bool:
        return secret.valid_until_ms is None or self._now_ms() < secret.valid_until_ms

    def _accepted_span(self, date_text: str) -> tuple[int, int] | None:
        """Return from when to when the date is valid, None if it is not valid now."""
        if not self._window_ms:
            return _ALWAYS
        date = parse_date(date_text)
        return (
            None if date is None else date.accepted_span(self._wall_ms(), self._window_ms, local_time=self._local_time)
        )


class SigningKey:
    """HMAC-SHA1 with a secret, prepared once: copying hashlib's state costs a twentieth of `hmac`."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, text: str) -> None:
        key = text.encode(errors="replace")
        if len(key) > _BLOCK_BYTES:
            key = sha1(key).digest()  # noqa: S324 - the protocol's signatures are HMAC-SHA1
        key = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = sha1(key.translate(_INNER))  # noqa: S324
        self._outer = sha1(key.translate(_OUTER))  # noqa: S324

    def compute_mac(self, text: bytes) -> str:
        """Return the HMAC of a text in hexadecimal."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.hexdigest()


class _ClaimedSignature:
    """A claimed HMAC of the date, in hexadecimal."""

    def __init__(self, signature: str, date_text: str) -> None:
        self._signature = signature.lower().encode(errors="replace")
        self._date = date_text.encode(errors="replace")

    def is_by(self, key: SigningKey) -> bool:
        return compare_digest(self._signature, key.compute_mac(self._date).encode())


class _ClaimedContent:
    """A claimed HMAC of a content."""

    def __init__(self, signature: bytes, content: bytes) -> None:
        self._signature = signature.hex().encode()
        self._content = content

    def is_by(self, key: SigningKey) -> bool:
        return compare_digest(self._signature, key.compute_mac(self._content).encode())


class _ClaimedPassword:
    """A claimed secret, compared by an HMAC with it, so that its length takes no time either."""

    _TEXT = b"password"

    def __init__(self, password: str) -> None:
        self._made = SigningKey(password).compute_mac(self._TEXT)

    def is_by(self, key: SigningKey) -> bool:
        return compare_digest(self._made, key.compute_mac(self._TEXT))


def _find_enabled_user(snapshot: AccessSnapshot, name: str) -> "AccessUser | None":
    user = snapshot.users.get(name)
    return user if user is not None and user.is_enabled else None
