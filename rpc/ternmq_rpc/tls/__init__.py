"""TLS: files and contexts, the session of one connection, and a transport over that of a socket."""
