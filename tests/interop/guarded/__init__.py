"""One small program of each official client, with TLS and credentials; `running.py` starts them."""
