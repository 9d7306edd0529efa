"""`ternmq topic`."""
