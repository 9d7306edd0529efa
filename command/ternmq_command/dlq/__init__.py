"""`ternmq dlq`: dead letters."""
