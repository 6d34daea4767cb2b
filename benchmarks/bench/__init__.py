"""The framework of the benchmarks: inputs, processes, comparisons, figures."""
