"""Brokers and their replicas, the server's processes, and who is connected."""
