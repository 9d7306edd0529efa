"""Header blocks without a table mean to a decoder of hpack what they say."""

import hpack
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.grpc_stream.literal_headers import NO_TABLE, literal_block

TEXTS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=400)


@given(fields=st.lists(st.tuples(st.text("abc-", min_size=1), TEXTS), max_size=12))
def test_our_own_blocks_mean_what_they_say(fields: list[tuple[str, str]]) -> None:
    decoder = hpack.Decoder(max_header_list_size=1 << 20)
    decoded = [(str(name), str(value)) for name, value in decoder.decode(NO_TABLE + literal_block(fields))]
    assert decoded == fields
    assert len(decoder.header_table.dynamic_entries) == 0
