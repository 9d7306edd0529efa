"""Quotas of users, topics, groups and clients as a proxy holds to them, and the ceiling of the process itself."""
