"""gRPC over HTTP/2, server and client: a state machine (`grpc_http2`), and the shells that move its bytes
(`grpc_stream`)."""
