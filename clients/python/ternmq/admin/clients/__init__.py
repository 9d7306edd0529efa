"""The clients of the admin service: with asyncio, blocking, and without gRPC."""
