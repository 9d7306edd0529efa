"""Fronts receive calls. A front turns requests of its protocol into plain values, calls operations, and answers."""
