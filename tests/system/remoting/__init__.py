"""The remoting front over the embedded stack, as clients of RocketMQ 4.x call it."""
