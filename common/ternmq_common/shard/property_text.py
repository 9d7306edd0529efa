"""The text form of a message's properties in the remoting protocol.

Form      name \\x01 value \\x02, for each pair. The last \\x02 may be missing.
Left out  a pair without a name, without a value, or with less than three characters, as Apache's clients do.

No message that is stored has a control character in a name or a value, so that a text can always be written.
"""

from collections.abc import Mapping
from typing import Final

_NAME_END: Final = "\x01"
_PAIR_END: Final = "\x02"
_PAIR_CHARACTERS_MIN: Final = 3


def read_properties(text: str) -> dict[str, str]:
    """Return the pairs of a text; of two with one name the last."""
    pairs: dict[str, str] = {}
    for pair in text.split(_PAIR_END):
        name, _, value = pair.partition(_NAME_END)
        if name and value and len(pair) >= _PAIR_CHARACTERS_MIN:
            pairs[name] = value
    return pairs


def write_properties(pairs: Mapping[str, str]) -> str:
    """Return the text of pairs; those with an empty value are left out."""
    return "".join([f"{name}{_NAME_END}{value}{_PAIR_END}" for name, value in pairs.items() if value])
