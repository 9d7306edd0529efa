"""What the proxy asks of storage brokers, and who answers: in this process, or in a cluster."""
