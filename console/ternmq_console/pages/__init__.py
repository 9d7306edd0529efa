"""The console's pages: made on the server, of what the desk says; they work without a script, and better with it."""
