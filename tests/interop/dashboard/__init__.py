"""The calls of rocketmq-dashboard, which itself is in no registry."""
