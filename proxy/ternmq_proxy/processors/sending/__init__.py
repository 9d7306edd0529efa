"""What is done with a message that is sent: it is inflated, placed, and brought into its stored form."""
