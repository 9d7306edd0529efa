"""TLS: files and contexts, the session of one connection, and the transport that it makes of a socket's."""
