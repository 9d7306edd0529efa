"""The demo's second part: Spark writes the flights into a lake, and the demo compares."""
