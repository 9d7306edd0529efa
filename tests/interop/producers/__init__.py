"""Programs that produce with the official clients, and what starts them."""
