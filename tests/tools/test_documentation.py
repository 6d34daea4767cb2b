"""What helps to build the documentation: links that leave it, and examples in docstrings."""

import pytest
from tools.griffe_doctests import fenced
from tools.mkdocs_hooks import without_outside_links


@pytest.mark.parametrize(
    ("text", "page", "expected"),
    [
        ("[Security](../SECURITY.md#reporting)", "index.md", "Security (`SECURITY.md`)"),
        ("[Security](../../SECURITY.md)", "how-to/test.md", "Security (`SECURITY.md`)"),
        ("[`examples/a.py`](../../examples/a.py)", "how-to/test.md", "`examples/a.py`"),
        ("[on\ntwo lines](../README.md)", "index.md", "on\ntwo lines (`README.md`)"),
        ("[sinks](how-to/sinks.md)", "index.md", "[sinks](how-to/sinks.md)"),
        ("[sinks](../how-to/sinks.md#frames)", "reference/api.md", "[sinks](../how-to/sinks.md#frames)"),
        ("[below](#here)", "index.md", "[below](#here)"),
        ("[elsewhere](https://example.org/a)", "index.md", "[elsewhere](https://example.org/a)"),
        ("![a picture](images/a.svg)", "index.md", "![a picture](images/a.svg)"),
        ("`[a](../b)` and [c](../d)", "index.md", "`[a](../b)` and c (`d`)"),
        ("```\n[a](../b)\n```\n[c](../d)", "index.md", "```\n[a](../b)\n```\nc (`d`)"),
        ("[the `x` of y](../z.md)", "index.md", "the `x` of y (`z.md`)"),
    ],
)
def test_links_that_leave_the_documentation_become_text(text, page, expected):
    assert without_outside_links(text, page) == expected


def test_they_lead_to_the_repository_where_it_is_known():
    linked = without_outside_links("[Security](../SECURITY.md#reporting)", "index.md", "https://forge.example/repo/")
    assert linked == "[Security](https://forge.example/repo/blob/main/SECURITY.md#reporting)"


def test_examples_become_code_and_the_rest_stays():
    docstring = (
        "Return two.\n\nArgs:\n    n: Any.\n\n>>> two(n)  # doctest: +ELLIPSIS\n2\n>>> @deco\n... def f():\n...     0\n"
        "\nMore words.\n\n>>> f()"
    )
    assert fenced(docstring) == (
        "Return two.\n\nArgs:\n    n: Any.\n\n```pycon\n>>> two(n)\n2\n>>> @deco\n... def f():\n...     0\n```\n"
        "\nMore words.\n\n```pycon\n>>> f()\n```\n"
    )


def test_a_docstring_without_examples_stays_as_it_is():
    assert fenced("Return > and >>.") == "Return > and >>."
