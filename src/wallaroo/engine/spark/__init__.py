"""Spark: its Java, its session, its settings, and readable messages for its failures."""
