"""Operations of clients that choose message queues and keep offsets themselves, as those of RocketMQ 4.x do."""
