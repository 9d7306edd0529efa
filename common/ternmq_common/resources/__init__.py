"""Settings of processes, topics, groups and quotas: one description each, from which every surface is derived."""
