"""Where messages are, by queue and offset and by key."""
