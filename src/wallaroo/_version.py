"""The version, in one place: the build and `machida --version` read it from here."""

__version__ = "0.1.0"
