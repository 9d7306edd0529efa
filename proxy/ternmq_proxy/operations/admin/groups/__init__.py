"""Consumer groups, how far they are, and where they go on."""
