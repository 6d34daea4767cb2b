"""A program for tests that make an application of local parts: it reads the application from a file."""

import pickle
from pathlib import Path


def application_setup(args):
    """Return the application in the file."""
    return pickle.loads(Path(args[0]).read_bytes())
