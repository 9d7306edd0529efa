"""Spark sessions of pipelines: their settings, their errors, and how they start again."""
