"""Operations of the log, and what they change: deletions, purges, epochs."""
