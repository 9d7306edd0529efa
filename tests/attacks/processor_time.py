"""The processor time of another process: a clock that stands still while other programs have the processors."""

import time

# How Linux names the clock of a process: the complement of its id, and CPUCLOCK_SCHED in the lowest three bits.
_SCHEDULED = 2


def read_processor_s(pid: int) -> float:
    """Return the seconds for which all threads of a process have run; 0.0 if there is no such process."""
    try:
        return time.clock_gettime((~pid << 3) | _SCHEDULED)
    except OSError:
        return 0.0
