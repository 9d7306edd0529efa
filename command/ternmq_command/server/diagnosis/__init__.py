"""Commands that show how a server is: status, version, rates, history, checks, and a support bundle."""
