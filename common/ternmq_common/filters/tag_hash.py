"""The hash of a message's tag, by which tag filters find messages without reading them."""

from ternmq_common.binary.checksum import crc32


def tag_hash(tag: str) -> int:
    """Return the hash that a stored message keeps of its tag, 32 bits; 0 stands for "no tag" and for nothing else."""
    return (crc32(tag.encode()) or 1) if tag else 0
