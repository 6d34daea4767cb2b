"""Checks of decoders, encoders, and the names of sources and sinks. Each check yields a sentence per mistake."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from wallaroo.interfaces import has_line_framing, takes_message
from wallaroo.introspection import (
    a_kind_of,
    accepts,
    call_text,
    decoration_mistakes,
    deferred_mistakes,
    function_mistakes,
    label,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_HEADER = 64


def source_name_mistakes(name: Any) -> Iterator[str]:
    """Check the optional name of a source config."""
    if name is not None and not (isinstance(name, str) and name):
        yield f"the name of the source config must be a string; got {a_kind_of(name)}"


def sink_name_mistakes(name: Any) -> Iterator[str]:
    """Check the optional name of a sink config."""
    if name is None:
        return
    if not isinstance(name, str):
        yield f"the name of the sink must be a string; got {a_kind_of(name)}"
    elif not name:
        yield "the name of the sink is empty: give it a name, or leave it out"


def decoder_mistakes(decoder: Any) -> Iterator[str]:
    """Check a decoder, which frames the bytes of a source and decodes them."""
    if mistakes := list(_not_a_decoder(decoder)):
        yield from mistakes
        return
    if takes_message(decoder):
        yield (
            f"the decoder {label(decoder)} takes a second argument, which only Kafka sources have: leave it out, as in "
            f"decode(bs); it is written as {call_text(decoder.decode, 'decode')}"
        )
        return
    if mistakes := list(decoration_mistakes(decoder)):
        yield from mistakes
        return
    try:
        lines = has_line_framing(decoder)
    except Exception as error:  # noqa: BLE001 - user code may raise anything
        yield f"framing() of the decoder {label(decoder)} failed with {type(error).__name__}: {error}"
        return
    needed = ("decode",) if lines else ("header_length", "payload_length", "decode")
    lacking = [method for method in needed if not callable(getattr(decoder, method, None))]
    if lacking:
        yield (
            f"the decoder {label(decoder)} has no method {listed(lacking)}: a decoder is a function with "
            "@wallaroo.decoder above it, or an object with header_length(), payload_length(bs) and decode(bs), or one "
            'with framing = "lines" and decode(bs)'
        )
        return
    yield from call_mistakes(decoder.decode, f"the decoder {label(decoder)}", "decode", "bs")
    yield from deferred_mistakes(decoder.decode, f"the decoder {label(decoder)}", _INSTEAD_OF_YIELD)
    if not lines:
        yield from call_mistakes(decoder.payload_length, f"the decoder {label(decoder)}", "payload_length", "bs")
        yield from _header_length_mistakes(decoder)


def message_decoder_mistakes(decoder: Any) -> Iterator[str]:
    """Check a decoder for messages that come one by one, without headers; it may take a `KafkaMessage`, too."""
    if mistakes := list(_not_a_decoder(decoder) or function_mistakes(decoder)):
        yield from mistakes
    elif not callable(getattr(decoder, "decode", None)):
        yield (
            f"the decoder {label(decoder)} has no method decode: a decoder is a function with @wallaroo.decoder above "
            "it, or an object with decode(bs)"
        )
    else:
        if not takes_message(decoder):
            yield from call_mistakes(decoder.decode, f"the decoder {label(decoder)}", "decode", "bs")
        yield from deferred_mistakes(decoder.decode, f"the decoder {label(decoder)}", _INSTEAD_OF_YIELD)


_INSTEAD_OF_YIELD = (
    "write `return`; where a payload has several messages, return a list of them, and let a step with "
    "@wallaroo.computation_multi return it again"
)


def _not_a_decoder(decoder: Any) -> list[str]:
    if inspect.isclass(decoder):
        return [f"the decoder is the class {decoder.__name__}: write {decoder.__name__}() to make one"]
    if inspect.isroutine(decoder):
        return [f"the decoder is the plain function {label(decoder)}: write @wallaroo.decoder above it"]
    return []


def _header_length_mistakes(decoder: Any) -> Iterator[str]:
    where = f"header_length() of the decoder {label(decoder)}"
    try:
        length = decoder.header_length()
    except Exception as error:  # noqa: BLE001 - user code may raise anything
        yield f"{where} failed with {type(error).__name__}: {error}"
        return
    if not isinstance(length, int) or isinstance(length, bool) or not 1 <= length <= _LONGEST_HEADER:
        yield (
            f"{where} must return a whole number of bytes from 1 to {_LONGEST_HEADER}; it returned {a_kind_of(length)}"
        )


def encoder_mistakes(encoder: Any) -> Iterator[str]:
    """Check an encoder, which encodes the outputs for a sink."""
    if inspect.isclass(encoder):
        yield f"the encoder is the class {encoder.__name__}: write {encoder.__name__}() to make one"
    elif inspect.isroutine(encoder):
        yield f"the encoder is the plain function {label(encoder)}: write @wallaroo.encoder above it"
    elif mistakes := list(decoration_mistakes(encoder)):
        yield from mistakes
    elif not callable(getattr(encoder, "encode", None)):
        yield (
            f"the encoder {label(encoder)} has no method encode: an encoder is a function with "
            "@wallaroo.encoder above it, or an object with encode(data)"
        )
    else:
        yield from call_mistakes(encoder.encode, f"the encoder {label(encoder)}", "encode", "data")
        instead = "write `return`, with all the bytes in one"
        yield from deferred_mistakes(encoder.encode, f"the encoder {label(encoder)}", instead)


def call_mistakes(method: Any, owner: str, name: str, parameter: str) -> Iterator[str]:
    """Check that the method `name` of the object `owner` can be called with one argument."""
    if not accepts(method, 1):
        yield (
            f"{name} of {owner} must allow 1 argument, as in {name}({parameter}); it is written as "
            f"{call_text(method, name)}"
        )


def listed(names: list[str]) -> str:
    """Return the names of missing methods, as text that completes "has no method".

    >>> listed(["encode"]), listed(["decode", "header_length"])
    ('encode', 'decode and no header_length')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and no {names[-1]}"
