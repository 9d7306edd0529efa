"""Clients of RocketMQ 4, unmodified, as programs that tests drive."""
