"""What the broker tells of itself: figures, history, progress, statuses, pages of what waits."""
