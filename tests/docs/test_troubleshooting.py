"""The page about errors: every exit code has its section, what it quotes is what the program says, and it has all."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import wallaroo
from wallaroo import errors
from wallaroo.cli.screen import EXIT_CODES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
FILLED_IN = "\0"
"""What stands in a text of the program for something that differs from case to case."""


@cache
def texts():
    """Return all texts in the program's code but for docstrings, from whole f-strings to single words."""
    found = []
    for path in Path(wallaroo.__file__).parent.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
        found += [text for node in nodes if node not in docstrings and (text := text_of(node)) is not None]
    return found


def text_of(node):
    """Return the text that an expression is, None if it is not a text."""
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else FILLED_IN for part in node.values)
        return "".join(map(str, parts))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        # Regular expressions and formats have their own ways to say what differs.
        return re.sub(r"\\\d|\{\w+(?:!r)?\}", FILLED_IN, node.value)
    return None


def quotes(page):
    return [quote for row in re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE) for quote in re.findall("`(.+?)`", row)]


@pytest.mark.parametrize("quote", quotes(PAGE))
def test_what_is_quoted_is_the_beginning_of_what_the_program_says(quote):
    assert any(map(pattern_of(quote).match, texts())), quote


def test_there_are_quotes_enough_to_look_at():
    assert len(set(quotes(PAGE))) > 150


def test_every_exit_code_has_its_section_and_no_other():
    codes = [int(code) for code in re.findall(r"^## Exit code (\d+):", PAGE, re.MULTILINE)]
    assert codes == sorted(EXIT_CODES.keys() - {0})


def test_every_kind_of_error_that_ends_a_run_has_its_section():
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
    assert len(kinds) > 5
    for kind in kinds:
        assert f"## Exit code {kind.exit_code}:" in PAGE, kind


NOT_OF_A_RUN = (
    "cli/commands/",
    "cli/dead_letter_queries.py",
    "cli/framing.py",
    "cli/kafka_io.py",
    "cli/kafka_topic.py",
    "cli/network.py",
    "cli/receive_effectively_once.py",
    "cli/send_input.py",
    "connect/",
    "connectors/extension/protocol.py",
    "connectors/extension/sink.py",
    "connectors/extension/source",
    "experimental/",
    "testing/",
)
"""The other commands, what users call in their tests and their scripts, and what ends a connection: no end of a run."""
NOT_ON_THE_PAGE = {
    "There is no directory": "`wallaroo dead-letters` looks for it; machida makes it",
    "Dead letters in … cannot be deleted one by one": "of `wallaroo dead-letters delete`",
    "the decoder's ": "ends a connection, or follows `Pipeline … cannot frame its messages`",
    "the decoder has no header and gives messages no length": "ends a connection",
    "The process that accepts connections is being stopped.": "the run is ending already",
    "…\nAccepted messages are kept": "comes after a message that is on the page",
    "In …, … …: ….": "ends with `it must give the same each time`, which is on the page",
    "The application … has …:…": "stands above the list of the mistakes",
    "… on …: …": "begins with the decorator, and has a mistake that is on the page after it",
    "… on …: …. For example, write …": "the same",
    "…: ….": "begins with `…, line …`",
    "…: …": "begins with a place, and has a mistake that is on the page after it",
    "…: …; ": "begins with an option, and has a mistake of an address that is on the page after it",
    "…. …": "begins with a sentence that is on the page",
    "…: … not known. Give a name or an address of a broker.": "begins with `Pipeline … cannot read the topic`",
    "broker of the …: …": "has a mistake of an address that is on the page after it",
    "--…_…": "the name of an option, which a message that is on the page begins with",
    "… with …, here with": "begins with `the state name … is already used`",
    "… … partitions, here": "begins with `the state name … is already used`",
    "… with other partition_keys": "begins with `the state name … is already used`",
    "…, after key_by(key_extractor)": "begins with `… is a state computation that brings its state`",
    "… Modules here: ": "begins with `No module named`",
    "… There are no modules here.": "begins with `No module named`",
    "… Leave out the ending": "begins with `No module named`",
    "…; or give Spark more": "begins with `--max-message-size … is too much`",
    "…. For messages of that size, Spark needs": "begins with `--max-message-size … is too much`",
}
"""Texts that are not quoted, each with the reason."""


@cache
def pattern_of(quote):
    return re.compile(".*".join(map(re.escape, quote.split("…"))), re.DOTALL)


@cache
def modules():
    package = Path(wallaroo.__file__).parent
    return {str(path.relative_to(package)): ast.parse(path.read_text()) for path in sorted(package.rglob("*.py"))}


def called(node):
    return getattr(node.func, "id", getattr(node.func, "attr", None))


@cache
def error_classes():
    """Return the names of `WallarooError` and of all classes that are derived from it, at any distance."""
    bases = {
        node.name: {getattr(base, "id", None) for base in node.bases}
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {"WallarooError"}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    # These end a connection, and are reported in a line about it.
    return found - {"ProtocolError", "OtherVersionError"}


def results(node):
    """Return what an expression may give, of two alternatives each."""
    return [*results(node.body), *results(node.orelse)] if isinstance(node, ast.IfExp) else [node]


def messages_of_errors(tree):
    """Yield the texts with which errors are made, also if a function of the module returns them."""
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and called(node) in error_classes() and node.args):
            continue
        for given in results(node.args[0]):
            maker = functions.get(called(given)) if isinstance(given, ast.Call) else None
            returns = [each.value for each in ast.walk(maker or given) if isinstance(each, ast.Return)]
            for each in [given, *returns]:
                yield from filter(None, map(text_of, results(each)))


def mistakes(tree):
    """Yield the sentences of the checks of an application."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and re.search("mistakes$|^unsavable_states$", function.name):
            found = [node.value for node in ast.walk(function) if isinstance(node, ast.Yield) and node.value]
            yield from filter(None, map(text_of, found))


MESSAGES = sorted(
    {
        text
        for path, tree in modules().items()
        if not path.startswith(NOT_OF_A_RUN)
        for text in [*messages_of_errors(tree), *mistakes(tree)]
    }
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda text: text.replace(FILLED_IN, "…")[:60])
def test_every_message_that_ends_a_run_is_on_the_page(message):
    assert is_excused(message) or any(is_quoted(message, quote) for quote in quotes(PAGE))


def is_quoted(message, quote):
    # What a quote begins with must not be hidden in the middle of another message.
    return message.startswith(quote[0].replace("…", FILLED_IN)) and pattern_of(quote).match(message)


def is_excused(message, *excuses):
    shown = message.replace(FILLED_IN, "…")
    return any(shown == each if each.endswith("…") else shown.startswith(each) for each in excuses or NOT_ON_THE_PAGE)


def test_there_are_messages_enough_to_look_for():
    assert len(MESSAGES) > 150


def test_every_exception_is_needed():
    for excuse in NOT_ON_THE_PAGE:
        assert any(is_excused(message, excuse) for message in MESSAGES), excuse
