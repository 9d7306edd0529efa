"""mqadmin, the operators' tool of RocketMQ, as its releases are."""
