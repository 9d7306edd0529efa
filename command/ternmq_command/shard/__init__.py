"""`ternmq shard`: shards and their replicas."""
