"""Pages of dead letters: groups that have some, the letters, and forms to resend, export and purge them."""
