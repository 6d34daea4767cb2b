"""How messages, and the application itself, travel between processes."""
