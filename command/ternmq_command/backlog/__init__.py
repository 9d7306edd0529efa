"""`ternmq backlog`: a group's backlog moved to a topic with more queues."""
