"""`ternmq dlq`: dead letters of consumer groups."""
