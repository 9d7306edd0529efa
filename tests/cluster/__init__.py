"""Tests of a cluster of processes, which are started while gRPC is in use: its handlers of fork don't survive that."""

import os

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
