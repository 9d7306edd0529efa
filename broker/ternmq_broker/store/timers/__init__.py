"""The pending timers, in order of their time."""
