"""`ternmq user`: who may call."""
