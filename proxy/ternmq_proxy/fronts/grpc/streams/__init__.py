"""Long calls: Telemetry, health, reflection, and polls that wait; and what ends them early."""
