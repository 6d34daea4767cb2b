"""Delivery, in the driver: sends outputs to the sinks, writes dead letters to their file, and records both."""
