"""`ternmq topic`: topics."""
