"""Frames are found in a stream of bytes, however it is cut into pieces, and hostile lengths end the connection."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_rpc.remoting.frames import (
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    FrameReader,
    RemotingError,
    join_frame,
)

PARTS = st.tuples(st.integers(0, 255), st.binary(max_size=40), st.binary(max_size=40))


@given(parts=st.lists(PARTS, max_size=6), data=st.data())
def test_frames_are_found_however_the_stream_is_cut(parts: list[tuple[int, bytes, bytes]], data: st.DataObject) -> None:
    stream = b"".join(join_frame(*each) for each in parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12), label="cuts"))
    reader = FrameReader()
    found = [
        frame for start, stop in pairwise([0, *cuts, len(stream)]) for frame in reader.read_frames(stream[start:stop])
    ]
    assert found == parts
    assert reader.kept_bytes == 0


@given(pieces=st.lists(st.binary(max_size=64), max_size=8))
def test_any_bytes_are_frames_or_an_error(pieces: list[bytes]) -> None:
    reader = FrameReader()
    read = 0
    for piece in pieces:
        try:
            frames = reader.read_frames(piece)
        except RemotingError:
            return
        read += len(piece)
        read -= sum(8 + len(header) + len(body) for _, header, body in frames)
        assert reader.kept_bytes == read


@pytest.mark.parametrize(
    ("length", "header_length"),
    [
        (FRAME_BYTES_MAX + 1, 10),
        (2**32 - 1, 10),
        (HEADER_BYTES_MAX + 100, HEADER_BYTES_MAX + 1),
        (20, 17),
        (3, 0),
        (0, 0),
    ],
)
def test_a_hostile_length_is_refused_before_anything_is_kept(length: int, header_length: int) -> None:
    reader = FrameReader()
    with pytest.raises(RemotingError):
        reader.read_frames(struct.pack(">II", length, header_length))
    assert reader.kept_bytes == 0


def test_the_longest_frame_passes() -> None:
    body = bytes(FRAME_BYTES_MAX - 4)
    [(_, header, read)] = FrameReader().read_frames(join_frame(0, b"", body))
    assert (header, read) == (b"", body)


def test_a_reader_knows_what_is_missing() -> None:
    reader = FrameReader()
    frame = join_frame(0, b"{}", b"body")
    assert reader.read_frames(frame[:7]) == []
    assert (reader.kept_bytes, reader.missing_bytes) == (7, 0)
    assert reader.read_frames(frame[7:9]) == []
    assert (reader.kept_bytes, reader.missing_bytes) == (9, len(frame) - 9)
    assert reader.read_frames(frame[9:]) == [(0, b"{}", b"body")]
    assert (reader.kept_bytes, reader.missing_bytes) == (0, 0)
