"""The interface between proxy and broker.

shard   what one broker does: `Shard`
calls   the table of the calls to a broker in another process
form    the encoding of calls and answers
"""
