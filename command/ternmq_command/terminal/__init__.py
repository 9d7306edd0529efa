"""Input and output of commands: options, confirmations, tables, JSON, failures."""
