"""The replicas of a shard as processes: carries out what `ternmq_broker.replication` decides, by streams and
registry."""
