"""What the registry has of topics, groups, brokers and quotas, as values that processes share."""
