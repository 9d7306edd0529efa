"""Which timers are pending, in order of their time."""
