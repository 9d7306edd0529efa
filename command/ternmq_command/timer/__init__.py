"""`ternmq timer`: timed messages that are not due yet."""
