"""The registry: topics, groups, brokers and their leases, on SQLAlchemy; SQLite embedded, PostgreSQL in a cluster.

Blocking; callers use a thread, or `directory.Directory`.
"""
