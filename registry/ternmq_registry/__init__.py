"""Who and where: topics and groups, on SQLAlchemy; SQLite embedded. Blocking; callers use a thread."""
