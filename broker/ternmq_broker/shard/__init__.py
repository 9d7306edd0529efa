"""The five parts of a broker, by the protocols of `ternmq_common.shard.shard`."""
