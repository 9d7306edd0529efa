"""The seam between proxy and broker.

shard   what one broker does: `Shard`
calls   the table of what can be asked of a broker in another process
form    how that travels
"""
