"""TCP: a source that others connect to, and sinks that connect to others."""
