"""Where calls come in. A front knows its protocol: it turns requests into plain values, calls operations, and answers."""
