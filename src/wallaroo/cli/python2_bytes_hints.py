"""Comparisons of bytes with text: in Python 3 they are never equal, and Python does not warn about it.

In Python 2 a decoder got a str, and `bs[:3] == "BUY"` worked as expected. In Python 3 nothing fails, but the decoder
takes the other branch for every message. So `wallaroo check` searches for such comparisons in the decoders of a
program, and in the functions that they call. Only what is certainly bytes counts: the decoder's parameter, parts of it,
names bound to nothing else, and the parameters of functions that are called with nothing else.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from enum import Enum, auto
from pathlib import Path
from types import ModuleType


class _Kind(Enum):
    """The type of an expression in a decoder, if known."""

    BYTES = auto()
    NUMBER = auto()
    """One item of bytes."""
    PARTS = auto()
    """A list of bytes."""


_GIVES = {
    **dict.fromkeys(("lower", "lstrip", "replace", "rstrip", "strip", "upper"), _Kind.BYTES),
    **dict.fromkeys(("partition", "rpartition", "rsplit", "split", "splitlines"), _Kind.PARTS),
}
"""The result types of methods of bytes."""
_ITEMS = {_Kind.BYTES: _Kind.NUMBER, _Kind.PARTS: _Kind.BYTES}
_MOST_STEPS = 20
"""The maximum number of passes in which types are inferred from those of the previous pass."""
_Names = dict[str, _Kind]
_Found = defaultdict[str, set[_Kind | None]]
"""The types that names are bound to: None stands for an unknown one."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def comparison_hints(module: ModuleType) -> Iterator[str]:
    """Yield a sentence for each comparison of bytes with text in the decoders of a module, and in what they call.

    Args:
        module: The imported program. If its source cannot be read, nothing is found.

    Yields:
        Where the comparison is, why it always has the same result, and what to write instead.
    """
    try:
        path = Path(str(module.__file__))
        program = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, AttributeError):
        return
    for line, text in hints_in(program):
        yield f"{path.name}, line {line}: {text}"


def hints_in(program: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each hint for a program.

    >>> program = '''
    ... @wallaroo.decoder
    ... def decode(bs):
    ...     return bs[:3] == "BUY"
    ... '''
    >>> for line, text in hints_in(ast.parse(program)):
    ...     print(line, text)
    4 `bs[:3] == 'BUY'` is never true: bytes do not equal text in Python 3. Write b'BUY', or decode the bytes first.
    """
    for function, names in _names_by_function(program).items():
        for node in ast.walk(function):
            if isinstance(node, ast.Compare) and (text := _hint(node, names)):
                yield node.lineno, text


def _names_by_function(program: ast.Module) -> dict[_Function, _Names]:
    """Return the names that are bytes, or parts of them, in the decoders of a program and in its other functions."""
    decoders = {function: {parameter: _Kind.BYTES} for function, parameter in _decoders(program)}
    others = [node for node in program.body if isinstance(node, _Function) and node not in decoders]
    parameters = decoders
    for _ in range(_MOST_STEPS):
        names = {each: _names_of_bytes(each, parameters.get(each, {})) for each in [*decoders, *others]}
        following = {**_given_by_calls(program, names), **decoders}
        if following == parameters:
            return names
        parameters = following
    return {}


def _given_by_calls(program: ast.Module, names: dict[_Function, _Names]) -> dict[_Function, _Names]:
    """Return the parameters of functions that are bytes, or parts of them, in all calls."""
    functions = {node.name: node for node in names if not node.decorator_list}
    given: dict[str, _Found] = defaultdict(lambda: defaultdict(set))
    understood = set()
    for caller, known in names.items():
        for node in ast.walk(caller):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
                understood.add(node.func)
                for parameter, argument in zip(functions[node.func.id].args.args, node.args, strict=False):
                    given[node.func.id][parameter.arg].add(_kind(argument, known))
    # What is called elsewhere, or handed on, may be given anything.
    elsewhere = {node.id for node in ast.walk(program) if isinstance(node, ast.Name) and node not in understood}
    return {functions[name]: _certain(found) for name, found in given.items() if name not in elsewhere}


def _certain(found: _Found) -> _Names:
    """Return the names that are bound to one known type and nothing else."""
    return {name: kind for name, (kind, *others) in found.items() if kind is not None and not others}


def _decoders(program: ast.Module) -> Iterator[tuple[_Function, str]]:
    """Yield the decoding functions and methods, and the name of the parameter that holds the bytes."""
    for node in ast.walk(program):
        if isinstance(node, _Function) and any(map(_is_decoder, node.decorator_list)) and node.args.args:
            yield node, node.args.args[0].arg
        elif isinstance(node, ast.ClassDef):
            methods = {each.name: each for each in node.body if isinstance(each, _Function)}
            decode = methods.get("decode")
            # Encoders and other classes may have a method of this name; only decoders have one of the length methods.
            if decode is not None and len(decode.args.args) == 2 and {"header_length", "payload_length"} & {*methods}:
                yield decode, decode.args.args[1].arg


def _is_decoder(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name in {"decoder", "stream_message_decoder", "streaming_message_decoder"}


def _names_of_bytes(function: _Function, parameters: _Names) -> _Names:
    """Return the names that are bytes, or parts of them, throughout a function."""
    names = parameters
    for _ in range(_MOST_STEPS):
        found: _Found = defaultdict(set, {name: {kind} for name, kind in parameters.items()})
        for name, kind in _bindings(function, names):
            found[name].add(kind)
        # A name that is also bound to something else is ignored, and so is what was bound to it.
        if (certain := _certain(found)) == names:
            return names
        names = certain
    return {}


def _bindings(function: _Function, names: _Names) -> Iterator[tuple[str, _Kind | None]]:
    """Yield each name bound in a function, with the type it is bound to: None if that is not known."""
    understood = set()
    for target, kind in _targets(function, names):
        several = target.elts if isinstance(target, ast.Tuple) else None
        for each in [target] if several is None else several:
            if isinstance(each, ast.Name):
                understood.add(each)
                yield each.id, kind if several is None else _item(kind)
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and node not in understood:
            yield node.id, None
        elif isinstance(node, ast.arg) and node not in function.args.args:
            yield node.arg, None  # A parameter of a nested function.


def _targets(function: _Function, names: _Names) -> Iterator[tuple[ast.expr, _Kind | None]]:
    """Yield the targets of assignments and loops, with the type they are bound to."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            yield from ((target, _kind(node.value, names)) for target in node.targets)
        elif isinstance(node, ast.For | ast.comprehension):
            yield node.target, _item(_kind(node.iter, names))


def _kind(node: ast.expr, names: _Names) -> _Kind | None:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Subscript):
        whole = _kind(node.value, names)
        return whole if isinstance(node.slice, ast.Slice) else _item(whole)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _GIVES.get(node.func.attr) if _kind(node.func.value, names) is _Kind.BYTES else None
    return None


def _item(kind: _Kind | None) -> _Kind | None:
    return None if kind is None else _ITEMS.get(kind)


def _hint(node: ast.Compare, names: _Names) -> str | None:
    for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
        kinds = {_kind(left, names), _kind(right, names)} & {_Kind.BYTES, _Kind.NUMBER}
        text = _text_compared(left, operator, right)
        if text is None or not kinds:
            continue
        always = "always" if isinstance(operator, ast.NotEq | ast.NotIn) else "never"
        why = f"`{ast.unparse(node)}` is {always} true: "
        if _Kind.NUMBER in kinds:
            return f"{why}an item of bytes is a number in Python 3. Take a slice such as bs[0:1], and write b{text!r}."
        return f"{why}bytes do not equal text in Python 3. Write b{text!r}, or decode the bytes first."
    return None


def _text_compared(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> str | None:
    """Return the text that an expression is compared with, or None if it is not compared with text."""
    if isinstance(operator, ast.Eq | ast.NotEq):
        candidates = [left, right]
    elif isinstance(operator, ast.In | ast.NotIn) and isinstance(right, ast.Tuple | ast.List | ast.Set):
        candidates = right.elts
    else:
        return None
    texts = (each.value for each in candidates if isinstance(each, ast.Constant) and isinstance(each.value, str))
    return next(texts, None)
