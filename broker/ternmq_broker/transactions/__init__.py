"""Half messages, their commits and rollbacks, and the checks of those that nobody ended."""
