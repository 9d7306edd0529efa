"""Rebuilds a lost registry from the contents of a store."""
