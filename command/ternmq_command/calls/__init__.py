"""The calls that commands make: the admin service, single calls of the protocol, and the client library."""
