"""`ternmq registry`."""
