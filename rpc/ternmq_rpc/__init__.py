"""gRPC over HTTP/2, server and client: a state machine (`grpc_http2`), and its shells (`grpc_stream`)."""
