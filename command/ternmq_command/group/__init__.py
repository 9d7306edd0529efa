"""`ternmq group`: consumer groups, their settings, how far they are."""
