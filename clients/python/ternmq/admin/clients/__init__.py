"""The clients of the admin service: with asyncio, and without gRPC; `ternmq.blocking` has the blocking one."""
