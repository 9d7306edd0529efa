"""`ternmq shard`."""
