"""How a pull consumer works inside; users import `PullConsumer` from `ternmq`."""
