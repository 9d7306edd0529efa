"""A shard of two to five replicas, its network, disks, clocks and registry, in one process and from one seed.

What decides is the broker's own code (`ternmq_broker.replication`). Here is what acts around it in the order in which
the broker does, and a world that does to it what may be done to machines.

Modelled      Clocks that differ in speed by as much as the timing allows, the registry's too. Connections that keep
              their order, stall, and break at each end at another time. Calls of the registry that are lost before or
              after they were done, or done late; those of one replica that wait for the row keep their order, looks and
              heartbeats overtake them; what may have been done is tried again, and so may be done twice. Disks that are
              slow and lose what was not synced, and truncations that were not. Processes that are killed, lose power,
              are stopped and go on, end when asked to, or come back with an empty disk. Retention, planned moves,
              shards that wait for replicas and shards that do not. Some disturbances wait for a call of the registry,
              to strike while it is under way (`Disturbances`).
Checked       after each step what `Checks` says, and at the end that the shard becomes whole again within ten leases.
              That the checks see something is shown by `breakages`: the protocol is broken in each of those ways.
Not modelled  Bytes: a position is a number of whole records. Clocks that jump or stand still (a virtual machine that
              was suspended). A registry that loses what it committed. Elections by an operator of a replica that is not
              in sync, which may lose messages and say so. Disks that are full or broken.
              An acknowledged message whose every in-sync copy was wiped: a wipe waits for another in-sync copy.
"""
