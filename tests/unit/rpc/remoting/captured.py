"""The frames that were captured between Apache's clients and Apache RocketMQ 5.5.0, by what they are."""

from pathlib import Path

_FILE = Path(__file__).parents[3] / "data" / "remoting" / "frames.txt"


def read_captured() -> dict[str, bytes]:
    """Return the bytes of each; those of a stored message are no frame."""
    lines = [line for line in _FILE.read_text().splitlines() if not line.startswith("#")]
    return {name: bytes.fromhex(digits) for name, digits in (line.split(": ") for line in lines)}


def read_frames() -> dict[str, bytes]:
    """Return the frames alone."""
    return {name: frame for name, frame in read_captured().items() if not name.startswith("stored message")}
