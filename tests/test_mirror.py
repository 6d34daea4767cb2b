"""Tests lie where the code lies: `tests/x/test_y.py` and `tests/x/test_y_more.py` are about `src/wallaroo/x/y.py`."""

from pathlib import Path

import pytest

import wallaroo

TESTS = Path(__file__).parent
PACKAGE = Path(wallaroo.__file__).parent
ABOUT_MORE = {
    "api/test_docstrings.py",
    "api/test_existing_programs.py",
    "api/test_generations.py",
    "api/test_typing.py",
    "test_attributes.py",
    "test_import_direction.py",
    "test_mirror.py",
    "test_public_names.py",
}
"""About the package as a whole, or about programs as users of the original wrote them."""
WHOLE_FOLDERS = {"docs", "examples", "system", "tools"}
"""About documents, examples, whole processes, and the tools of the project."""
FILES = sorted(
    path.relative_to(TESTS)
    for path in TESTS.rglob("test_*.py")
    if path.relative_to(TESTS).parts[0] not in WHOLE_FOLDERS and str(path.relative_to(TESTS)) not in ABOUT_MORE
)


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_file_of_tests_is_named_after_what_it_tests(file):
    words = file.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:number]) for number in range(1, len(words) + 1)]
    assert any((PACKAGE / file.parent / f"{name}.py").exists() for name in names), file
