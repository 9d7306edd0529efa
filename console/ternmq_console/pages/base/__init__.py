"""What all pages are made with: who is signed in, what he asks, forms, and templates."""
