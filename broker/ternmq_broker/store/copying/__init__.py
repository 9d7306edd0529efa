"""The store as a copy of its leader's log."""
