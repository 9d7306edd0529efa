"""Brings the indexes up to date with the log when a store is opened."""
