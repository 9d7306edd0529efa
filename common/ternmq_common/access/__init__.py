"""Access control in RocketMQ 5's model: users, what they may do, and the decision; see `docs/security.md`."""
