"""A server of several processes: a supervisor, the workers that share its port, and the broker behind them.

supervisor   has the addresses, starts the others, starts again what dies, and answers health and metrics for all
broker       the store, as in a cluster; its storage service is a socket in the supervisor's folder (`ternmq up` only)
worker       a proxy of a cluster; the kernel gives it some of the connections (SO_REUSEPORT)

Folder       each process has a folder below one in the machine's temporary folder, for this user alone.
Life         what the supervisor starts has a pipe from it as its standard input, and ends when that ends.
Signals      each process has a session of its own, so that Ctrl-C reaches the supervisor only, which has the workers
             end before their broker.
"""
