"""A server of several processes: a supervisor, the workers that share its port, and the broker behind them.

supervisor   has the addresses, starts the other processes and restarts those that die, and answers health and metrics
             for all
broker       the store, as in a cluster; its storage service is a socket in the supervisor's folder (`ternmq up` only)
worker       a proxy of a cluster; the kernel gives it some of the connections (SO_REUSEPORT)

Folder       each process has a folder below one in the machine's temporary folder, for this user alone.
Life         each process has a pipe from the supervisor as its standard input, and ends when the pipe is closed.
Signals      each process has a session of its own, so that Ctrl-C reaches only the supervisor, which ends the workers
             before their broker.
"""
