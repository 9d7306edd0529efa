"""`./run bench`, or `python -m benchmarks.bench`: TernMQ beside others under the same load, in turns, as ratios.

servers   starts TernMQ, Apache RocketMQ 5.5.0 (its default flush, a heap of 2 GiB), NATS JetStream (file storage)
          and the floor: Go's gRPC answering sends with a constant, without storing anything
load      builds and runs the load generator in `benchmarks/loader`, which is compiled so that it is never the limit
field     which servers run, warm and each on its core, and what one run of a load cost there
works     what is measured under load; `standing`: what is measured of servers without load
turns     the order of all runs
tables    pairs of runs of the same round as ratios, with their spread and the bars; `plot` draws them

Order     round after round, with one run on every server in each: noise of the machine affects all of them alike.
CPU       of all processes of a server, user and system, from the load's begin to its last answer. The servers have one
          core, the load generator has another.
Ratio     TernMQ's figure divided by the peer's of the same round; the table has the median and the range of these.
"""
