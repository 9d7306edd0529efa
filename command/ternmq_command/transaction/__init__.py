"""`ternmq transaction`."""
