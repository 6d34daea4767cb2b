"""The parts of the benchmark; each measures one thing and can be run alone."""
