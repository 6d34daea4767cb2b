"""The end of a block, in the driver: outputs to the sinks, dead letters to their file, and a record of both."""
