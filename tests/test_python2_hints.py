"""Errors of programs in Python 2 say what to write in Python 3."""

import itertools
import re
import string
import struct
import sys

import pytest

import wallaroo
from wallaroo import python2_hints, testing
from wallaroo.errors import users_traceback


def syntax_error(source):
    with pytest.raises(SyntaxError) as refused:
        compile(source, "program.py", "exec")
    return refused.value


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        ("print 'x'", "print 'x'", "print('x')"),
        ("if x:\n    print x, 'and', y", "print x, 'and', y", "print(x, 'and', y)"),
        ("print 'a; b', c # d", "print 'a; b', c", "print('a; b', c)"),
        ("print 'no end',", "print 'no end',", "print('no end', end=\" \")"),
        ("import os; print os.name; x = 1", "print os.name", "print(os.name)"),
        ('print "%s and %s" % (a, b)', 'print "%s and %s" % (a, b)', 'print("%s and %s" % (a, b))'),
        ("print 'over %s' % (\n    lines)", "print text", "print(text)"),
        ("try:\n    pass\nexcept ValueError, e:\n    pass", "except ValueError, e:", "except ValueError as e:"),
        (
            "try:\n    pass\nexcept (KeyError, socket.error), e:\n    pass",
            "except (KeyError, socket.error), e:",
            "except (KeyError, socket.error) as e:",
        ),
        ("x = `y + 1`", "`y + 1`", "repr(y + 1)"),
        ("os.chmod(path, 0755)", "0755", "0o755"),
        ("x = 0777L", "0777L", "0o777"),
        ("exec 'x = 1'", "exec 'x = 1'", "exec('x = 1')"),
        ("exec code in names", "exec code in names", "exec(code, names)"),
        ("exec 'a in b' in ours, theirs", "exec 'a in b' in ours, theirs", "exec('a in b', ours, theirs)"),
        ("raise ValueError, 'no'", "raise ValueError, 'no'", "raise ValueError('no')"),
        ("raise E, '%s, %s' % (a, b)", "raise E, '%s, %s' % (a, b)", "raise E('%s, %s' % (a, b))"),
        ("raise E, 'no', trace", "raise E, 'no', trace", "raise E('no').with_traceback(trace)"),
        (
            "raise E, x, sys.exc_info()[2]",
            "raise E, x, sys.exc_info()[2]",
            "raise E(x).with_traceback(sys.exc_info()[2])",
        ),
        ("raise ValueError, \\\n    'no'", "raise Error, text", "raise Error(text)"),
        (r"x = ur'\d'", r"ur'\d'", r"r'\d'"),
        ('x = UR"a"', 'UR"a"', 'r"a"'),
        ("if a <> b:\n    pass", "a <> b", "a != b"),
        ("x = 10L", "10L", "10"),
        ("x = 0xFFl", "0xFFl", "0xFF"),
    ],
)
def test_a_line_of_python_2_is_rewritten(source, old, new):
    error = syntax_error(source)
    assert python2_hints.syntax_hint(error) == f"`{old}` is written `{new}` in Python 3"
    assert python2_hints.hint(error) == f"This looks like Python 2: `{old}` is written `{new}` in Python 3."


@pytest.mark.parametrize("source", ["def f(self, (a, b)):\n    pass", "f = lambda (a, b): a"])
def test_parameters_that_are_pairs(source):
    assert python2_hints.syntax_hint(syntax_error(source)) == (
        "a parameter cannot be `(a, b)` in Python 3: call it `pair`, and take it apart: `a, b = pair`"
    )


def test_tabs_among_spaces():
    error = syntax_error("def f(x):\n    if x:\n\treturn 1\n    return 2\n")
    assert (
        python2_hints.syntax_hint(error) == "one line is indented with tabs and another with spaces: use spaces in both"
    )


@pytest.mark.parametrize(
    "source",
    [
        "x = (1",
        "print ('x'",
        "print = 5 +",
        "if x = 3: pass",
        "x = 'print this' 5",
        "x = '`a`' 5",
        "x = 5 5 # `a` <> 0777",
        "x = '<>' 5",
        "x = 08",
        "class:",
    ],
)
def test_other_mistakes_are_not_taken_for_python_2(source):
    assert python2_hints.hint(syntax_error(source)) is None


def raised(program, **names):
    with pytest.raises(Exception) as failure:
        exec(program, {"string": string, "sys": sys, "itertools": itertools, "re": re, "struct": struct, **names})
    return failure.value


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("{}.has_key('a')", "`d.has_key(key)` is written `key in d` in Python 3"),
        ("{}.iteritems()", "`d.iteritems()` is written `d.items()` in Python 3"),
        ("{}.itervalues()", "`d.itervalues()` is written `d.values()` in Python 3"),
        ("xrange(5)", "`xrange` is written `range` in Python 3"),
        ("unicode('a')", "`unicode` is written `str` in Python 3"),
        ("raw_input()", "`raw_input` is written `input` in Python 3"),
        ("reduce(max, [])", "`reduce` is written `functools.reduce` in Python 3"),
        ("isinstance('', basestring)", "`basestring` is written `str` in Python 3"),
        ("import cPickle", "the module `cPickle` is called `pickle` in Python 3"),
        ("from Queue import Queue", "the module `Queue` is called `queue` in Python 3"),
        ("import urllib2", "the module `urllib2` is called `urllib.request` in Python 3"),
        ("from itertools import izip", "`itertools.izip` is written `zip` in Python 3"),
        ("itertools.imap", "`itertools.imap` is written `map` in Python 3"),
        ("string.letters", "`string.letters` is written `string.ascii_letters` in Python 3"),
        ("sys.maxint", "`sys.maxint` is written `sys.maxsize` in Python 3"),
        ("'text'.decode('utf-8')", "a str is text already in Python 3, and only bytes have decode: leave it out"),
        ("b'text'.encode()", "bytes are encoded already in Python 3, and only text has encode: leave it out"),
        ("ValueError('x').message", "`error.message` is written `str(error)` in Python 3"),
        ("iter([]).next()", "`it.next()` is written `next(it)` in Python 3, and a class has `__next__` for it"),
        ("(lambda: 1).func_name", "`f.func_name` is written `f.__name__` in Python 3"),
        (
            "{}.keys()[0]",
            "keys(), values(), items(), map, filter and zip do not return lists in Python 3: put list(...) around it",
        ),
        (
            "map(int, '12')[0]",
            "keys(), values(), items(), map, filter and zip do not return lists in Python 3: put list(...) around it",
        ),
    ],
)
def test_what_python_2_had_is_recognised(program, expected):
    assert python2_hints.hint(raised(program)) == f"This looks like Python 2: {expected}."


NO_LIST = "keys(), values() and items() do not return lists in Python 3: to change d in it, write `for key in list(d):`"


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("ord(b'abc'[0])", "`bs[0]`, and what `for b in bs` gives, are whole numbers in Python 3: leave ord() out"),
        (
            "re.match('a', b'abc')",
            "a pattern for bytes is bytes in Python 3: write re.compile(b'...'), or bs.decode() to search in text",
        ),
        (
            "re.compile(b'a').search('abc')",
            "a pattern for text is text in Python 3: write re.compile('...'), without the b, or text.encode()",
        ),
        (
            "raise BytesWarning('Comparison between bytes and string')",
            "bytes do not equal text in Python 3: write b'...', or decode the bytes first",
        ),
        ("d = {1: 2}\nfor key in d.keys(): del d[key]", NO_LIST),
        ("d = {1: 2, 3: 4}\nfor key, value in d.items(): d[value] = key", NO_LIST),
    ],
)
def test_errors_that_python_2_did_not_raise_are_recognised(program, expected):
    assert python2_hints.hint(raised(program)) == f"This looks like Python 2: {expected}."


@pytest.mark.parametrize(
    "program",
    [
        "struct.pack('>1s', 'a')",
        "b'a' + 'b'",
        "'a' + b'b'",
        "b'a b'.split(' ')",
        "b'a b'.startswith('a')",
        "b'a b'.endswith('b')",
    ],
)
def test_text_where_bytes_belong_and_the_other_way_round(program):
    assert python2_hints.hint(raised(program)) == (
        "This looks like Python 2: str and bytes are different types in Python 3: write text.encode() or bs.decode() "
        "to convert."
    )


class Thing:
    pass


@pytest.mark.parametrize(
    "program",
    [
        "{}.no_such_method",
        "thing.has_key",
        "thing.next",
        "thing.decode",
        "nothing",
        "import no_such_module_anywhere",
        "from itertools import no_such_function",
        "1 + 'a'",
        "{}['a']",
        "int('a')",
        "ord('ab')",
        "ord(None)",
        "raise RuntimeError('no')",
    ],
)
def test_other_errors_are_not_taken_for_python_2(program):
    assert python2_hints.hint(raised(program, thing=Thing())) is None


def test_a_users_traceback_ends_with_the_hint():
    text = users_traceback(raised("xrange(5)"))
    assert text.splitlines()[-2:] == [
        "NameError: name 'xrange' is not defined",
        "This looks like Python 2: `xrange` is written `range` in Python 3.",
    ]
    assert users_traceback(raised("int('a')")).splitlines()[-1].startswith("ValueError: ")


def test_a_dead_letter_has_the_hint():
    @wallaroo.computation("count letters")
    def count_letters(text):
        counts = {}
        for letter in text:
            counts[letter] = counts[letter] + 1 if counts.has_key(letter) else 1
        return counts

    ab = wallaroo.ApplicationBuilder("old")
    ab.new_pipeline("texts", wallaroo.TCPSourceConfig("127.0.0.1", 0, wallaroo.decoder(lambda bs: bs)))
    memory = testing.InMemory(ab.to(count_letters).build(), keep_errors=True)
    (letter,) = memory.send(["a"]).errors
    assert letter["error"] == "AttributeError: 'dict' object has no attribute 'has_key'"
    assert letter["traceback"].endswith(
        f"{letter['error']}\nThis looks like Python 2: `d.has_key(key)` is written `key in d` in Python 3."
    )
