"""Rebuilds a lost registry from what a store holds."""
