"""The commit log: its records, its segments, and its recovery at a start."""
