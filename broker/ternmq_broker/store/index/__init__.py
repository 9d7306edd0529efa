"""The index of the commit log: where messages are, by queue and offset and by key."""
