"""How messages, and the plan of a run, are serialized and sent between processes."""
