"""`ternmq group`: consumer groups, their settings and their progress."""
