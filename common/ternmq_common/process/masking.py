"""Masks secrets in texts that are shown or logged, by `***`. Pure, and linear in the text's length.

URLs     what could be the password of one: all from the first colon to the last @ of its word
Fields   the value after a name like authorization, x-mq-session-token, password or secret_key, however the two are
         written: `name: value`, `name=value`, `"name": "value"`, `(b'name', b'value')`
Schemes  what follows Bearer, Basic or a signature's `Credential=`

It hides rather too much than too little: of a bare `authorization:` the rest of its line.
"""

import re

_MASK = "***"
_WORD = re.compile(r"\S+")
_WHOLE_LINE = r"(?:proxy-)?authorization"
_NAMED = (
    r"[\w-]{0,64}(?:session|access|auth|security|refresh|id)[_-]?token|[\w-]{0,64}secret(?:[_-]?(?:access[_-]?)?key)?"
    r"|[\w-]{0,64}secrets?[_-]?key|[\w-]{0,64}pass(?:word|wd|phrase)|pwd|[\w-]{0,64}api[_-]?key|credentials?|signature"
)
_QUOTED = r"""b?'(?:[^'\\]|\\.)*+'|b?"(?:[^"\\]|\\.)*+\""""
# Between a name and its value: `=`, `: `, `': '`, `", "`; of a name without quotes no comma.
_BETWEEN = r"""(?:\\?['"]?\s{0,8}[:=]\s{0,8}|\\?['"],\s{0,8})"""
_FIELD = re.compile(
    rf"(?<![\w-])((?:{_NAMED}){_BETWEEN})(?:{_QUOTED}|[^\s&]++)"
    rf"|(?<![\w-])({_WHOLE_LINE}{_BETWEEN})(?:{_QUOTED}|[^\n]++)",
    re.IGNORECASE | re.DOTALL,
)
_SCHEME = re.compile(r"\b((?:Bearer|Basic)\s{1,8})[\w.~+/=-]{8,4096}")
_HINTS = ("token", "secret", "pass", "pwd", "key", "credential", "signature", "authorization", "bearer", "basic")


def mask_secrets(text: str) -> str:
    """Mask the secrets that are recognized in `text`."""
    if "://" in text and "@" in text:
        text = _WORD.sub(_mask_url, text)
    lower = text.lower()
    if any(hint in lower for hint in _HINTS):
        text = _FIELD.sub(lambda found: f"{found[1] or found[2]}{_MASK}", text)
        text = _SCHEME.sub(lambda found: f"{found[1]}{_MASK}", text)
    return text


def _mask_url(match: re.Match[str]) -> str:
    word = match[0]
    scheme, separator, rest = word.partition("://")
    user_info, at, host = rest.rpartition("@")
    user, colon, _ = user_info.partition(":")
    return f"{scheme}{separator}{user}:{_MASK}{at}{host}" if at and colon else word
