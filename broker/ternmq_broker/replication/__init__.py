"""What the replicas of a shard decide: no network, no event loop, no disk, no clock of their own."""
