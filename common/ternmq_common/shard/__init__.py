"""The interface between proxy and broker.

shard         what one broker does: `Shard`, as five protocols
calls         the table of the calls to a broker in another process
remote_shard  the protocols by such calls
shard_frames  the encoding of calls and answers
"""
