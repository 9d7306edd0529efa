"""Formats the stacks of a process, for an operator who diagnoses a process that hangs."""

import asyncio
import sys
import threading
import traceback


def format_stacks() -> str:
    """Return the stack of every task of the running loop and of every thread, as text."""
    threads = {thread.ident: thread.name for thread in threading.enumerate()}
    lines: list[str] = []
    for task in asyncio.all_tasks():
        lines.append(f'Task "{task.get_name()}"')
        # Not Task.print_stack: it fails on gRPC's compiled frames, which have no line numbers.
        lines += [f"  {frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}" for frame in task.get_stack()]
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 - there is no public way
        lines.append(f'Thread "{threads.get(ident, ident)}"')
        lines += [line.rstrip() for line in traceback.format_stack(frame)]
    return "\n".join(lines)
