"""What can go wrong while measuring."""


class BenchmarkError(Exception):
    """Something could not be measured; the text says what and why."""


class DifferentOutputError(BenchmarkError):
    """The output of a program is wrong: no time of it counts."""


class TooSlowError(BenchmarkError):
    """Something did not happen in the time that it was given."""


class NotRunningError(BenchmarkError):
    """A program did not start, or ended by itself."""
