"""The listeners for clients, parsed from the setting `grpc`."""

from dataclasses import dataclass

from ternmq_common.addresses import is_wildcard, parsed_address

LISTENERS_MAX = 8


@dataclass(frozen=True, slots=True)
class Listener:
    """One address for clients, `host:port`.

    `advertised` is the address that clients of this listener get; None: the one that they used.
    """

    address: str
    advertised: str | None = None


def parsed_listeners(text: str) -> tuple[Listener, ...]:
    """Parse `HOST:PORT[=HOST:PORT],...`; ValueError with the mistake and its address."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > LISTENERS_MAX:
        raise ValueError(f"at most {LISTENERS_MAX} listeners are allowed")
    listeners = tuple(_listener(part) for part in parts)
    taken = [bound_to(listener.address) for listener in listeners]
    for listener, (host, port) in zip(listeners, taken, strict=True):
        if port != 0 and taken.count((host, port)) > 1:
            raise ValueError(f"{listener.address} is there more than once")
    return listeners


def _listener(text: str) -> Listener:
    address, separator, advertised = (part.strip() for part in text.partition("="))
    for part in (address, advertised) if separator else (address,):
        try:
            parsed_address(part)
        except ValueError as error:
            raise ValueError(f"{part!r} is no address: {error}") from None
    if not separator:
        return Listener(address)
    host, port = parsed_address(advertised)
    if port == 0 or is_wildcard(host):
        raise ValueError(f"no client can connect to {advertised}; name the host and port that clients shall use")
    return Listener(address, advertised)


def bound_to(address: str) -> tuple[str, int]:
    """Host and port, so that two spellings of one address are equal."""
    host, port = parsed_address(address)
    return host.lower(), port
