"""Sources that make their messages themselves."""
