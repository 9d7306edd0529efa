"""What the broker does by itself: retention, spills and checkpoints, scrubs and repairs, disk space."""
