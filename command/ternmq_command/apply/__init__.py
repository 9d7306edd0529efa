"""`ternmq apply` and `ternmq export`: topics, groups and users as a file declares them."""
