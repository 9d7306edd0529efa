"""The process that a client runs in: its event loop, threads, forks and signals."""
