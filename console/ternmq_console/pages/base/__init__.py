"""Code that all pages share: sessions, calls, forms and templates."""
