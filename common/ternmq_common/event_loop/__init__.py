"""Work on the event loop: what is done at once, at the end of a turn, or in turn with others."""
