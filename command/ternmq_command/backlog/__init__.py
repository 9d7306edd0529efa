"""`ternmq backlog`: moves a group's backlog to a topic with more queues."""
