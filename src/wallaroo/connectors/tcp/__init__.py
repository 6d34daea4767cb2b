"""TCP: sources that senders connect to, and sinks that connect to receivers."""
