"""What every server process of ours stands on: its life, its event loop, logs, metrics, HTTP, workers."""
