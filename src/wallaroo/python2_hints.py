"""Recognizes Python 2 in programs, and suggests how to write it in Python 3.

The programs that Wallaroo was made for were written in Python 2. If one of them fails for that reason, the error says
what to write instead.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType

_NAMES = {
    "basestring": "str",
    "buffer": "memoryview",
    "cmp": "(a > b) - (a < b)",
    "execfile": "exec(open(file).read())",
    "file": "open",
    "intern": "sys.intern",
    "long": "int",
    "raw_input": "input",
    "reduce": "functools.reduce",
    "reload": "importlib.reload",
    "unichr": "chr",
    "unicode": "str",
    "xrange": "range",
}

_MODULES = {
    "ConfigParser": "configparser",
    "HTMLParser": "html.parser",
    "Queue": "queue",
    "SocketServer": "socketserver",
    "StringIO": "io",
    "__builtin__": "builtins",
    "cPickle": "pickle",
    "cStringIO": "io",
    "commands": "subprocess",
    "cookielib": "http.cookiejar",
    "copy_reg": "copyreg",
    "httplib": "http.client",
    "md5": "hashlib",
    "sha": "hashlib",
    "thread": "threading",
    "urllib2": "urllib.request",
    "urlparse": "urllib.parse",
}

_OF_MODULES = {
    ("itertools", "ifilter"): "filter",
    ("itertools", "imap"): "map",
    ("itertools", "izip"): "zip",
    ("itertools", "izip_longest"): "itertools.zip_longest",
    ("os", "getcwdu"): "os.getcwd",
    ("string", "atoi"): "int",
    ("string", "join"): "the method join of the text between the words",
    ("string", "letters"): "string.ascii_letters",
    ("string", "lowercase"): "string.ascii_lowercase",
    ("string", "maketrans"): "str.maketrans",
    ("string", "uppercase"): "string.ascii_uppercase",
    ("sys", "maxint"): "sys.maxsize",
    ("time", "clock"): "time.perf_counter",
    ("urllib", "quote"): "urllib.parse.quote",
    ("urllib", "unquote"): "urllib.parse.unquote",
    ("urllib", "urlencode"): "urllib.parse.urlencode",
    ("urllib", "urlopen"): "urllib.request.urlopen",
}

_METHODS: dict[str, tuple[type, str]] = {
    "has_key": (dict, "`d.has_key(key)` is written `key in d` in Python 3"),
    "iteritems": (dict, "`d.iteritems()` is written `d.items()` in Python 3"),
    "iterkeys": (dict, "`d.iterkeys()` is written `d.keys()` in Python 3"),
    "itervalues": (dict, "`d.itervalues()` is written `d.values()` in Python 3"),
    "viewitems": (dict, "`d.viewitems()` is written `d.items()` in Python 3"),
    "viewkeys": (dict, "`d.viewkeys()` is written `d.keys()` in Python 3"),
    "viewvalues": (dict, "`d.viewvalues()` is written `d.values()` in Python 3"),
    "decode": (str, "a str is text already in Python 3, and only bytes have decode: leave it out"),
    "encode": (bytes, "bytes are encoded already in Python 3, and only text has encode: leave it out"),
    "format": (bytes, "bytes have no format in Python 3: make the text first, and encode it then"),
    "func_name": (FunctionType, "`f.func_name` is written `f.__name__` in Python 3"),
    "message": (BaseException, "`error.message` is written `str(error)` in Python 3"),
    "next": (Iterator, "`it.next()` is written `next(it)` in Python 3, and a class has `__next__` for it"),
}

_WORDS = (
    (
        r"'(dict_keys|dict_values|dict_items|map|filter|zip)' object is not subscriptable",
        "keys(), values(), items(), map, filter and zip do not return lists in Python 3: put list(...) around it",
    ),
    (
        (
            r"bytes-like object is required, not 'str|\(not \"bytes\"\) to str|concat str to bytes|"
            r"for 's' must be a bytes|must be bytes or a tuple of bytes, not str"
        ),
        "str and bytes are different types in Python 3: write text.encode() or bs.decode() to convert",
    ),
    (
        r"Comparison between bytes and string",
        "bytes do not equal text in Python 3: write b'...', or decode the bytes first",
    ),
    (
        r"ord\(\) expected string of length 1, but int found",
        "`bs[0]`, and what `for b in bs` gives, are whole numbers in Python 3: leave ord() out",
    ),
    (
        r"cannot use a string pattern on a bytes-like object",
        "a pattern for bytes is bytes in Python 3: write re.compile(b'...'), or bs.decode() to search in text",
    ),
    (
        r"cannot use a bytes pattern on a string-like object",
        "a pattern for text is text in Python 3: write re.compile('...'), without the b, or text.encode()",
    ),
    (
        r"dictionary (changed size|keys changed) during iteration",
        "keys(), values() and items() do not return lists in Python 3: to change d in it, write `for key in list(d):`",
    ),
)


def hint(error: BaseException) -> str | None:
    """Return how to write in Python 3 what `error` suggests is Python 2, or None if it does not look like it.

    >>> try:
    ...     {}.has_key("a")
    ... except AttributeError as error:
    ...     print(hint(error))
    This looks like Python 2: `d.has_key(key)` is written `key in d` in Python 3.
    """
    found = None
    if isinstance(error, SyntaxError):
        found = syntax_hint(error)
    elif isinstance(error, ImportError):
        found = _of_import(error)
    elif isinstance(error, NameError):
        found = _instead(error.name, _NAMES.get(error.name or ""))
    elif isinstance(error, AttributeError):
        found = _of_attribute(error)
    elif isinstance(error, TypeError | RuntimeError | BytesWarning) or type(error).__module__ == "struct":
        found = next((text for pattern, text in _WORDS if re.search(pattern, str(error))), None)
    return None if found is None else f"This looks like Python 2: {found}."


def syntax_hint(error: SyntaxError) -> str | None:
    """Return how the line at fault is written in Python 3, or None if it does not look like Python 2.

    >>> try:
    ...     compile("print 'hello', name", "program.py", "exec")
    ... except SyntaxError as error:
    ...     print(syntax_hint(error))
    `print 'hello', name` is written `print('hello', name)` in Python 3
    """
    if isinstance(error, TabError):
        return "one line is indented with tabs and another with spaces: use spaces in both"
    line = (error.text or "").strip()
    if pair := re.search(r"\(([\w\s,]+)\)", line) if "cannot be parenthesized" in error.msg else None:
        return f"a parameter cannot be `{pair[0]}` in Python 3: call it `pair`, and take it apart: `{pair[1]} = pair`"
    code = _without_texts(line)
    for form in _FORMS:
        if re.search(form.said, error.msg) and (match := re.search(form.pattern, code)):
            return form.hint(_Found(line, match))
    return None


def _without_texts(line: str) -> str:
    """Return the line with its string literals blanked and without its comment: their content is not code."""
    texts = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
    return re.sub(texts, lambda m: m[0][0] + "_" * (len(m[0]) - 2) + m[0][0], line).partition("#")[0].rstrip()


def _instead(old: str | None, new: str | None) -> str | None:
    return None if new is None else f"`{old}` is written `{new}` in Python 3"


def _of_import(error: ImportError) -> str | None:
    module = error.name or ""
    if name := re.match(r"cannot import name '(\w+)'", str(error)):
        return _instead(f"{module}.{name[1]}", _OF_MODULES.get((module, name[1])))
    new = _MODULES.get(module)
    return None if new is None else f"the module `{module}` is called `{new}` in Python 3"


def _of_attribute(error: AttributeError) -> str | None:
    name = error.name or ""
    if isinstance(error.obj, ModuleType):
        module = error.obj.__name__
        return _instead(f"{module}.{name}", _OF_MODULES.get((module, name)))
    kind, text = _METHODS.get(name, (ModuleType, ""))
    return text if isinstance(error.obj, kind) else None


class _Found:
    """A match in the blanked line, which returns the corresponding original text."""

    def __init__(self, line: str, match: re.Match[str]) -> None:
        self._line = line
        self._match = match

    def __getitem__(self, group: str | int) -> str:
        start, end = self._match.span(group)
        return self._line[start:end].strip()


@dataclass(frozen=True)
class _Form:
    """A Python 2 construct: Python 3's error message for it, its pattern, and its Python 3 form.

    `sample` is shown if the line does not contain the whole statement.
    """

    said: str
    pattern: str
    rewritten: Callable[[_Found], str]
    sample: tuple[str, str] | None = None

    def hint(self, found: _Found) -> str | None:
        old, new = found[0], self.rewritten(found)
        if self.sample is not None and not _is_complete(new):
            old, new = self.sample
        return _instead(old, new)


def _is_complete(statement: str) -> bool:
    try:
        ast.parse(statement)
    except SyntaxError:
        return False
    return True


def _print(found: _Found) -> str:
    what = found["what"]
    return f'print({what[:-1].rstrip()}, end=" ")' if what.endswith(",") else f"print({what})"


def _exec(found: _Found) -> str:
    return f"exec({found['code']}, {found['names']})" if found["names"] else f"exec({found['code']})"


def _raise(found: _Found) -> str:
    raised = f"raise {found['kind']}({found['text']})"
    return f"{raised}.with_traceback({found['trace']})" if found["trace"] else raised


_FORMS = (
    _Form(
        "call to 'print'",
        r"\bprint\b(?!\s*\()(?P<what>[^;]+)",
        _print,
        ("print text", "print(text)"),
    ),
    _Form(
        "call to 'exec'",
        r"\bexec\b(?P<code>[^;]+?)(?:\bin\b(?P<names>[^;]+))?$",
        _exec,
        ("exec code", "exec(code)"),
    ),
    _Form(
        "",
        r"\bexcept\s+(?P<kinds>\([^)]*\)|[\w.]+)\s*,\s*(?P<name>\w+)\s*:",
        lambda found: f"except {found['kinds']} as {found['name']}:",
    ),
    _Form(
        "",
        r"\braise\s+(?P<kind>[\w.]+)\s*,(?P<text>[^;]+?)(?:,\s*(?P<trace>[\w.]+(?:\(\)\[2\])?))?$",
        _raise,
        ("raise Error, text", "raise Error(text)"),
    ),
    _Form("", r"`(?P<what>[^`]+)`", lambda found: f"repr({found['what']})"),
    _Form("", r"\b[uU][rR](?P<text>\"_*\"|'_*')", lambda found: f"r{found['text']}"),
    _Form(
        "",
        r"(?P<left>[\w.\])]+)\s*<>\s*(?P<right>[\w.\"'\[(]+)",
        lambda found: f"{found['left']} != {found['right']}",
    ),
    _Form(
        "leading zeros",
        r"(?<![\w.])0+(?P<digits>[0-7]+)[lL]?\b",
        lambda found: f"0o{found['digits']}",
    ),
    _Form(
        "invalid (decimal|hexadecimal) literal",
        r"(?<![\w.])(?P<digits>\d+|0[xX][0-9a-fA-F]+)[lL]\b",
        lambda found: found["digits"],
    ),
)
