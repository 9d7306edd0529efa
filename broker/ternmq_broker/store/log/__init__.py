"""The commit log: its records, and what a start finds in it."""
