"""The documentation as a site: it builds without a warning, and its pages load nothing from another host."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.processes import run_python
from tools.reference_pages import filled

from wallaroo.cli.wallaroo import main as wallaroo

ROOT = Path(__file__).parents[2]
LOADED = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}


class Resources(HTMLParser):
    """Collects what a page loads, as opposed to what it links to."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        if value := dict(attrs).get(LOADED.get(tag, "")):
            self.found.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    run_python("-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", folder, cwd=ROOT)
    return folder


def test_no_page_loads_anything_from_another_host(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        resources = Resources()
        resources.feed(page.read_text())
        assert resources.found
        assert [each for each in resources.found if re.match(r"(\w+:)?//", each)] == [], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*['\"]?(?:\w+:)?//", sheet.read_text()), sheet


def test_every_name_of_the_api_has_an_entry(site):
    page = (site / "reference" / "api" / "index.html").read_text()
    shown = re.findall(r"^::: (wallaroo[\w.]*)$", filled((ROOT / "docs/reference/api.md").read_text()), re.MULTILINE)
    assert len(shown) > 60
    assert [name for name in shown if f'id="{name}"' not in page] == []


def test_every_command_has_a_section(site):
    page = (site / "reference" / "command-line" / "index.html").read_text()
    assert {f"wallaroo-{name}" for name in wallaroo.list_commands(None)} <= set(re.findall('<h2 id="([^"]+)"', page))


def test_examples_of_docstrings_are_shown_as_code(site):
    page = (site / "reference" / "api" / "index.html").read_text()
    assert "&gt;&gt;&gt;" in page
    # Markdown makes a quotation of what begins with these characters.
    assert "<blockquote>" not in page


def test_links_that_leave_the_documentation_are_text(site):
    page = (site / "index.html").read_text()
    assert "Security (<code>SECURITY.md</code>)" in page
    assert 'href="../SECURITY.md' not in page
