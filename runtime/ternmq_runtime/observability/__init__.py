"""What a process tells of itself: logs, health and metrics over HTTP, OpenTelemetry's metrics and traces."""
