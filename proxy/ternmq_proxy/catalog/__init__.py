"""The topics, groups, users and brokers that a proxy knows, and their changes."""
