"""Topics, groups, brokers and quotas of the registry, as values that processes share."""
