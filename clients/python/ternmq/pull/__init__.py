"""Internals of the pull consumer; users import `PullConsumer` from `ternmq`."""
