"""The gRPC front: serves calls of `apache.rocketmq.v2` and of the admin services."""
