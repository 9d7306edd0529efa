"""Who signed a request (`overview.md, Signing`).

The signature is HMAC-SHA1 over the text of the date, with one of the user's secrets; the date must be of now. Whatever
is wrong, the answer is the same, and takes as long: an access key that nobody has is tried with keys that nobody has.

Calls of a connection come with the same two headers for a second or so: who verified them has an `Identity`, which says
whether it still holds for others, without another HMAC.
"""

import hmac
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_common.access.users import SECRETS_MAX, AccessSnapshot, Secret
from ternmq_common.errors import MessagingError
from ternmq_common.signing import Authorization
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.access.signed_date import SignedDate, parsed_date

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.access.users import User

    Keys = list[tuple[Secret | None, "hmac.HMAC"]]

_HASH = "sha1"


class NotAuthenticated(MessagingError):
    """Nobody knows who calls. The text is the same for all reasons; `access_key` is who it says that it is, if it says
    so, and `reason` is for the audit log alone."""

    def __init__(self, access_key: str, reason: str) -> None:
        self.access_key, self.reason = access_key, reason
        super().__init__(
            definition_pb2.UNAUTHORIZED,
            "the request is not signed by a user of this server: check access key and secret, and the client's clock",
        )


@dataclass(frozen=True, slots=True)
class Identity:
    """A user who signed with that secret, as `snapshot` has both; `authorization` and `date_text` are the headers that
    prove it, and are in no repr. `date` is None if nobody asks for it."""

    user: str
    secret: Secret = field(repr=False)
    snapshot: AccessSnapshot = field(repr=False)
    authorization: str = field(repr=False)
    date_text: str = field(repr=False)
    date: SignedDate | None = None


class Authentication:
    """`snapshot` has the users of now. `now_ms` is the stack's clock, by which secrets end; `wall_ms` the machine's, to
    which clients' dates are held."""

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
        self._nobodys: Keys = [(None, _key(secrets.token_hex(16))) for _ in range(SECRETS_MAX)]

    def identified(self, authorization: str, date_text: str) -> Identity:
        """Who signed this date; NotAuthenticated if nobody did."""
        header = Authorization.parse(authorization)
        if header is None:
            raise NotAuthenticated("", "no credentials" if not authorization else "a malformed header")
        snapshot = self._snapshot()
        secret = self._secret(header, date_text, snapshot)
        date = parsed_date(date_text) if self._window_ms else None
        if secret is None:
            raise NotAuthenticated(header.access_key, "an unknown user or a wrong signature")
        if self._window_ms and not self._is_fresh(date):
            raise NotAuthenticated(header.access_key, "a date outside of the window")
        return Identity(header.access_key, secret, snapshot, authorization, date_text, date)

    def is_same(self, identity: Identity, authorization: str, date_text: str) -> bool:
        """Whether these headers prove, now, what those of the identity did."""
        return (
            identity.date_text == date_text
            and identity.authorization == authorization
            and identity.snapshot is self._snapshot()
            and self._is_valid(identity.secret)
            and (not self._window_ms or self._is_fresh(identity.date))
        )

    def is_still(self, identity: Identity) -> bool:
        """Whether the user is there, and has that secret: for calls that began with it and go on."""
        user = _enabled(self._snapshot(), identity.user)
        return user is not None and any(
            own.text == identity.secret.text and self._is_valid(own) for own in user.secrets
        )

    def has_password(self, name: str, password: str) -> bool:
        """Whether the user has that secret, for protocols that do not sign."""
        return self._secret_of(name, _Password(password), self._snapshot()) is not None

    def _secret(self, header: Authorization, date_text: str, snapshot: AccessSnapshot) -> Secret | None:
        return self._secret_of(header.access_key, _Signature(header.signature, date_text), snapshot)

    def _secret_of(self, name: str, proof: "_Signature | _Password", snapshot: AccessSnapshot) -> Secret | None:
        """The one that gives the proof, if it is valid. All are tried, whoever it is: that takes the same time."""
        found = None
        for secret, key in self._keys_of(name, snapshot):
            if proof.is_by(key) and secret is not None and self._is_valid(secret):
                found = secret
        return found if _enabled(snapshot, name) is not None else None

    def _keys_of(self, name: str, snapshot: AccessSnapshot) -> "Keys":
        if snapshot is not self._keyed:
            self._keyed = snapshot
            self._keys.clear()
        keys = self._keys.get(name)
        if keys is None:
            user = snapshot.users.get(name)
            if user is None:
                return self._nobodys
            keys = [(secret, _key(secret.text)) for secret in user.secrets[:SECRETS_MAX]]
            keys = self._keys[name] = [*keys, *self._nobodys[len(keys) :]]
        return keys

    def _is_valid(self, secret: Secret) -> bool:
        return secret.valid_until_ms is None or self._now_ms() < secret.valid_until_ms

    def _is_fresh(self, date: SignedDate | None) -> bool:
        return date is not None and date.is_of(self._wall_ms(), self._window_ms, local_time=self._local_time)


class _Signature:
    """What is said to be the HMAC of the date, in hexadecimal."""

    def __init__(self, signature: str, date_text: str) -> None:
        self._signature = signature.lower().encode(errors="replace")
        self._date = date_text.encode(errors="replace")

    def is_by(self, key: "hmac.HMAC") -> bool:
        made = key.copy()
        made.update(self._date)
        return hmac.compare_digest(self._signature, made.hexdigest().encode())


class _Password:
    """The secret itself; compared by an HMAC with it, so that its length takes no time either."""

    _TEXT = b"password"

    def __init__(self, password: str) -> None:
        key = _key(password)
        key.update(self._TEXT)
        self._made = key.digest()

    def is_by(self, key: "hmac.HMAC") -> bool:
        made = key.copy()
        made.update(self._TEXT)
        return hmac.compare_digest(self._made, made.digest())


def _enabled(snapshot: AccessSnapshot, name: str) -> "User | None":
    user = snapshot.users.get(name)
    return user if user is not None and user.is_enabled else None


def _key(text: str) -> "hmac.HMAC":
    """The state of an HMAC before the text, for copies."""
    return hmac.new(text.encode(errors="replace"), digestmod=_HASH)
