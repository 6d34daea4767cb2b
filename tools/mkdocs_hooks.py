"""Hooks of the documentation's build: links that leave docs/ become the text of the link and the path of the file.

On a git forge such links lead to the files. The site has no such files, and knows no address of the repository, unless
`repo_url` in mkdocs.yml names one: then they lead there.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

_CODE = r"^(?P<fence>```|~~~).*?^(?P=fence)[ \t]*$|`[^`]+`"
_LINK = r"(?<!!)\[(?P<text>(?:[^\[\]`]|`[^`]*`)*)\]\((?P<target>[^)\s]+)\)"
# What begins first counts: a link inside of code is code, and code inside of a link is a part of the link.
_CODE_OR_LINK = re.compile(f"{_CODE}|{_LINK}", re.MULTILINE | re.DOTALL)
_BRANCH = "main"


def on_page_markdown(markdown: str, /, *, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Rewrite a page before it is made into HTML (a hook of mkdocs')."""
    return without_outside_links(markdown, page.file.src_uri, config.repo_url or "")


def without_outside_links(markdown: str, page: str, repository: str = "") -> str:
    """Return the text of a page in docs/ with its links to files outside docs/ replaced.

    >>> without_outside_links("See [Security](../SECURITY.md#reporting).", "index.md")
    'See Security (`SECURITY.md`).'
    >>> without_outside_links("See [`examples/a.py`](../../examples/a.py).", "how-to/test.md")
    'See `examples/a.py`.'
    >>> without_outside_links("See [Security](../SECURITY.md#reporting).", "index.md", "https://forge/repo")
    'See [Security](https://forge/repo/blob/main/SECURITY.md#reporting).'
    >>> without_outside_links("See [the sinks](how-to/sinks.md), and `[a](../b)`.", "index.md")
    'See [the sinks](how-to/sinks.md), and `[a](../b)`.'
    """
    folder = os.path.dirname(f"docs/{page}")  # noqa: PTH120 - a name in the repository, not on this machine

    def replaced(found: re.Match[str]) -> str:
        text, target = found["text"], found["target"]
        if target is None:
            return found[0]
        path, hash_sign, heading = target.partition("#")
        outside = os.path.normpath(f"{folder}/{path}")
        if not path or "://" in path or outside.startswith("docs/"):
            return found[0]
        if repository:
            return f"[{text}]({repository.rstrip('/')}/blob/{_BRANCH}/{outside}{hash_sign}{heading})"
        return text if outside in text else f"{text} (`{outside}`)"

    return _CODE_OR_LINK.sub(replaced, markdown)
