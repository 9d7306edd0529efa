"""The console's pages, rendered on the server; they work without a script, and better with it."""
