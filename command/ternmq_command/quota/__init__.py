"""`ternmq quota`: quotas of users, topics, groups and clients."""
