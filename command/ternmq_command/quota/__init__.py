"""`ternmq quota`."""
