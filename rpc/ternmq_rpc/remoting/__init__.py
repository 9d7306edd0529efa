"""RocketMQ's remoting protocol, without a network: frames, both forms of headers, and the JSON dialect of bodies.

Where its rules come from: section 1 and 2 of `docs/protocol/remoting.md`.
"""
