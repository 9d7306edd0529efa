"""Keys of handles that tests make up, and those of a server's registry."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from ternmq_common.catalog.handle_keys import HandleKey, HandleKeys
from ternmq_proxy.handle_form import HandleForm
from ternmq_proxy.handles import HandleForms
from ternmq_registry.registry import Registry

FIRST = HandleKey(1, bytes(range(32)), 0)
NEXT = HandleKey(2, bytes(range(32, 64)), 0)
KEYS = HandleKeys((FIRST, NEXT))


def made_up_handles() -> HandleForms:
    """As services have them."""
    return HandleForms(lambda: (FIRST, NEXT))


def handle_form(group: str, topic: str) -> HandleForm:
    return HandleForm(group, topic, KEYS)


def keys_in(data_dir: Path) -> HandleKeys:
    """Those of the embedded server with that data directory."""
    with closing(Registry.open_sqlite(data_dir / "registry.db")) as registry:
        return HandleKeys(registry.read_snapshot().handle_keys)


def flipped(text: str) -> Iterator[str]:
    """The ASCII text with each of its bits flipped."""
    data = text.encode()
    for place in range(len(data)):
        for bit in range(7):
            yield (data[:place] + bytes((data[place] ^ 1 << bit,)) + data[place + 1 :]).decode()
