"""`ternmq apply` and `ternmq export`: topics, groups, users and quotas in a file."""
