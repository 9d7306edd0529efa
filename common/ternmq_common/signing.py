"""Request signatures: an HMAC-SHA1 over the text of the date header (`overview.md, Signing`).

  authorization: MQv2-HMAC-SHA1 Credential=<key>[/anything], SignedHeaders=x-mq-date-time, Signature=<hex>

The signature proves the caller's identity, not the request: only TLS keeps it from being read, and replayed while its
date is fresh.
"""

import hmac
from dataclasses import dataclass

ALGORITHM = "MQv2-HMAC-SHA1"
DATE_HEADER = "x-mq-date-time"
AUTHORIZATION_HEADER = "authorization"


@dataclass(frozen=True, slots=True)
class SignedAuthorization:
    """The parts of the header that a server checks."""

    access_key: str
    signature: str

    @classmethod
    def parse_header(cls, header: str) -> "SignedAuthorization | None":
        """Parse the header; None if it is invalid: the server answers UNAUTHORIZED then."""
        _, space, rest = header.partition(" ")
        items = [item.strip().partition("=") for item in rest.split(",")]
        if not space or any(not equals for _, equals, _ in items):
            return None
        values = {name: value for name, _, value in items}
        access_key = values.get("Credential", "").partition("/")[0]
        signature = values.get("Signature", "")
        return cls(access_key, signature) if access_key and signature else None


def authorization_header(access_key: str, secret_key: str, date_text: str) -> str:
    """The value of the `authorization` header."""
    signature = signature_of(secret_key, date_text)
    return f"{ALGORITHM} Credential={access_key}, SignedHeaders={DATE_HEADER}, Signature={signature}"


def signature_of(secret_key: str, date_text: str) -> str:
    """The signature in upper-case hexadecimal, as most official clients write it."""
    return hmac.new(secret_key.encode(), date_text.encode(), "sha1").hexdigest().upper()
