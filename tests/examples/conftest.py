"""Follows READMEs, and leaves nothing behind."""

import shutil
import tempfile
from pathlib import Path

import pytest

from .readme import Walkthrough


@pytest.fixture
def walkthrough():
    """Follow the README of an example."""
    # The paths of sockets must be short, and those of pytest's own folders are not.
    scratch = Path(tempfile.mkdtemp(prefix="wex-"))
    made = []

    def follow(example, servers=()):
        made.append(Walkthrough(example, scratch, servers))
        return made[-1]

    yield follow
    for each in made:
        each.clean_up()
    shutil.rmtree(scratch, ignore_errors=True)
