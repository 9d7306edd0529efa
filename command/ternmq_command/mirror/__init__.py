"""`ternmq mirror`: copies messages of another cluster while both run, and moves consumer groups with them.

origin of a message   `ternmq_common/shard/mirror_origin.py`, a property of each copy: the only thing that a mirror
                      believes of what was copied, so that a killed one goes on where it was
positions             which message of the source is where in the target; where a group may begin; pure
copies                what becomes of a message; pure
checkpoint            the positions in a file, to save reading the target
source, target        the two clusters, by the remoting protocol
copier                copies one queue; `mirroring` runs all of them, `group_moves` translates offsets
"""
