"""Observability of a process: its figures, and OpenTelemetry's metrics and traces."""
