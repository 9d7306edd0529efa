"""The registry's database: transactions, rows, checksums, and its schema."""
