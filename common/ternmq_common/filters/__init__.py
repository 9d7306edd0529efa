"""Filters of messages: tag expressions and SQL92 conditions."""
