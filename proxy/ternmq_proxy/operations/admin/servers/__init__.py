"""The servers themselves: state, logs, figures, clock."""
