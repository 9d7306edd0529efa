"""Messages: send, receive, tail, recall, and find what is stored."""
