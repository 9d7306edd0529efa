"""Verifies a store: walks the log, and compares all files with it."""
