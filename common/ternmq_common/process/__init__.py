"""Code that server processes share: private files, log levels, masked logs, peers."""
