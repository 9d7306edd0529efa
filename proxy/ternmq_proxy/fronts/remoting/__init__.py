"""The front of RocketMQ's remoting protocol: messages in the form that 4.x clients send and read."""
