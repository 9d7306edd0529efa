"""RocketMQ's remoting protocol, without a network: frames, both forms of headers, and the JSON dialect of bodies."""
