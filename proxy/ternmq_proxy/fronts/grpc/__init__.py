"""The gRPC front: calls of `apache.rocketmq.v2` and of the admin services, and the answers that they get."""
