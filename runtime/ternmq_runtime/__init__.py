"""The base of every server process: start and end, event loop, logs, metrics, HTTP, workers."""
