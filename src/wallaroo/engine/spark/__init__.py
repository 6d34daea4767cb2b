"""Spark as a tool: its Java, its session, its settings, and its failures in plain words."""
