"""Mistakes in what runs, one patch each, that the simulation of running replicas finds (`tests.simulation.running`).

A patch begins with a line that says what is wrong then, and names a seed that finds it: `Seed: 17`. When the code has
changed so that a patch does not fit any more it is to be made anew; when another seed finds it, as every change of what
runs changes what happens in a seed, `python -m tests.simulation.planted --renew` writes that into the patch.
"""
