"""Sources that generate their own messages."""
