"""The processes of a cluster in the registry: brokers, their replicas, and proxies."""
