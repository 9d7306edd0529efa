"""The offsets of a read: where it begins and ends, how it is split, and what was lost. Pure."""
