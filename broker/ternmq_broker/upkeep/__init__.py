"""The periodic work of the broker: retention, spills and checkpoints, scrubs and repairs, disk space."""
