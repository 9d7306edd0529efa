"""Where calls come in: gRPC and HTTP. A front knows its transport and nothing of messages."""
