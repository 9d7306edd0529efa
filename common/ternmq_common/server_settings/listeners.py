"""The listeners for clients, parsed from the setting `grpc`."""

from dataclasses import dataclass

from ternmq_common.addresses import is_wildcard, parse_address

LISTENERS_MAX = 8


@dataclass(frozen=True, slots=True)
class ClientListener:
    """One address for clients, `host:port`.

    `advertised` is the address that clients of this listener get; None: the one that they used.
    """

    address: str
    advertised: str | None = None


def parse_listeners(text: str) -> tuple[ClientListener, ...]:
    """Parse `HOST:PORT[=HOST:PORT],...`; ValueError with the mistake and its address."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > LISTENERS_MAX:
        raise ValueError(f"at most {LISTENERS_MAX} listeners are allowed")
    listeners = tuple(_parse_listener(part) for part in parts)
    taken = [normalize_address(listener.address) for listener in listeners]
    for listener, (host, port) in zip(listeners, taken, strict=True):
        if port != 0 and taken.count((host, port)) > 1:
            raise ValueError(f"{listener.address} is there more than once")
    return listeners


def _parse_listener(text: str) -> ClientListener:
    address, separator, advertised = (part.strip() for part in text.partition("="))
    for part in (address, advertised) if separator else (address,):
        try:
            parse_address(part)
        except ValueError as error:
            raise ValueError(f"{part!r} is no address: {error}") from None
    if not separator:
        return ClientListener(address)
    host, port = parse_address(advertised)
    if port == 0 or is_wildcard(host):
        raise ValueError(f"no client can connect to {advertised}; name the host and port that clients shall use")
    return ClientListener(address, advertised)


def normalize_address(address: str) -> tuple[str, int]:
    """Host and port, so that two spellings of one address are equal."""
    host, port = parse_address(address)
    return host.lower(), port
