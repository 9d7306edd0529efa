"""`ternmq apply` and `ternmq export`: topics and groups as a file declares them."""
