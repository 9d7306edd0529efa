"""Pages of the cluster: brokers, replicas, the server's processes, and clients."""
