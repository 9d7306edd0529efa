"""Reports of the broker about itself: figures, history, progress, statuses, and lists of what waits."""
