"""`ternmq import`: reads what a cluster of Apache RocketMQ has, and creates it here."""
