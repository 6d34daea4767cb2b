"""Shows the examples in docstrings as code in the API reference.

Examples stand in docstrings as the interpreter shows them, with `>>>`, so that they run as tests. Markdown takes these
characters for a quotation, so each example is put into a fenced block before the docstring is read.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_FLAGS = re.compile(r" +# doctest: .*")
_EXAMPLE = re.compile(r"(?:^[ \t]*>>> .*\n?(?:^[ \t]*\S.*\n?)*)+", re.MULTILINE)


class Extension(griffe.Extension):
    """Rewrites the docstrings of everything in a package that was loaded."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrite all docstrings of a package (an event of Griffe's)."""
        _rewrite(pkg)


def _rewrite(thing: griffe.Object | griffe.Alias) -> None:
    if thing.is_alias:
        return
    if thing.docstring is not None:
        thing.docstring.value = fenced(thing.docstring.value)
    for member in thing.members.values():
        _rewrite(member)


def fenced(docstring: str) -> str:
    r"""Return a docstring with its examples in fenced blocks, without what is only for the tests.

    >>> print(fenced("Return two.\n\n>>> two()  # doctest: +ELLIPSIS\n2\n>>> two() + 1\n3\n\nMore words."))
    Return two.
    <BLANKLINE>
    ```pycon
    >>> two()
    2
    >>> two() + 1
    3
    ```
    <BLANKLINE>
    More words.
    """
    return _EXAMPLE.sub(lambda found: f"```pycon\n{_FLAGS.sub('', found[0]).rstrip()}\n```\n", docstring)
