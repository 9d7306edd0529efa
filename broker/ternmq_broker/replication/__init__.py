"""The decisions of the replicas of a shard. Pure: no network, no event loop, no disk, no clock."""
