"""Observability of a process: logs, metrics, and OpenTelemetry's metrics and traces."""
