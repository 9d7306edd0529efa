"""`ternmq audit`: what a server wrote to its audit log."""
