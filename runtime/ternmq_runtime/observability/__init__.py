"""What a process tells of itself: logs, metrics, and OpenTelemetry's metrics and traces."""
