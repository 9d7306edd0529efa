"""Reads the audit log again: its files backwards, its entries, and pages of them."""
