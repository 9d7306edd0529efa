"""Messages: found in their topics, looked at one by one, seen as they come, and sent to try something."""
