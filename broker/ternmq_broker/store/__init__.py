"""One commit log and what is derived from it. Knows files; knows no network, no event loop and no database."""
