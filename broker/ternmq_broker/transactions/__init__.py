"""Half messages, their commits and rollbacks, and the checks of half messages that no producer ended."""
