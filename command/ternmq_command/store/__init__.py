"""The files of a broker: `ternmq store`, `ternmq backup`, `ternmq restore`."""
