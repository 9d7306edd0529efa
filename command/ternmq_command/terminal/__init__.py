"""How commands talk to a person or a program: options, questions, tables, JSON, failures."""
