"""Times: durations as arguments, back-offs, and times as the wire has them."""
