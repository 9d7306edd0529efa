"""The consumption journal: the groups' progress on disk."""
