"""The replicas of a shard as processes: what `ternmq_broker.replication` decides, done by streams and the registry."""
