"""Quotas of users, topics, groups and clients at a proxy, and the ceiling of the process itself."""
