"""The requests of the remoting protocol: each handler reads the fields, calls the operation, and writes the answer."""
