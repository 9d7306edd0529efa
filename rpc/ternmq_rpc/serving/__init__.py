"""The parts of a server of any protocol: accepting, TLS, limits of connections and of all together, deadlines, sockets.

It knows no protocol. `budgets.py` and `time_limits.py` are pure; `connection_server.py` puts all together.
"""
