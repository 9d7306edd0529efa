"""`ternmq timer`."""
