"""A shard as it runs: the broker's own processes, a proxy and their registry, on one event loop and from one seed.

What runs is `Replica` with all below it (follower, leader, store, journal, flusher), the storage service with its
HTTP/2, `ClusterMessageService`, `Directory` and `Registry`. Below them is a world that chance makes: time, threads,
network, disks, processes. `tests.simulation` has the decisions alone, a hundred times faster.

Modelled      Time goes by as the loop works and sleeps (`loop`). Threads do their work at once, after a while, and are
              heard of after another. Connections take their time, are cut, are reset at one end before the other hears
              of it, stall for seconds (`network`). Disks keep what was synced, and of the rest what chance says; their
              syncs are slow, their writes fail (`disk`). Processes are killed, lose power, end, and stand still. The
              registry is slow, away, answers nothing of what it did, or does it late (`registry`).
Clients       send NORMAL, FIFO, DELAY, TRANSACTION and LITE messages, receive and acknowledge them, and account for all
              (`producers`, `clients`, `ledger`).
Checked       what `checks` says: when an answer comes, on the disks of all that may lead next; at each delivery; and at
              the end, when the world is left alone and the shard has to become whole, and hand out everything.
Shown         by `planted`: mistakes in the code that runs, one patch each, which the simulation finds.
Not modelled  Work takes no time but its turn of the loop. TLS, TCP itself. Files beside the store (deletions that are
              done) never lose anything. PostgreSQL: the registry is SQLite, of which no commit is ever lost. Bytes that
              rot, disks that are full, disks that are replaced. Retention. Shards that do not wait for replicas.
"""
