"""What commands ask of a server: our admin service, single calls of the protocol, and the client library."""
