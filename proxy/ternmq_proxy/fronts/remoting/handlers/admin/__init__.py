"""Requests of operators' tools: mqadmin, the dashboard, exporters. A module for each thing that they ask about."""
