"""What can be wrong with sources and sinks. Each check yields one sentence for each mistake it finds."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from wallaroo.errors import WallarooParameterError
from wallaroo.topology.addresses import port_number
from wallaroo.topology.inspection import a_kind_of, accepts, call_text, label
from wallaroo.topology.validate import making_mistakes

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_HEADER = 64
_A_SOURCE = "wallaroo.TCPSourceConfig(host, port, decoder)"
_A_SINK = "wallaroo.TCPSinkConfig(host, port, encoder)"


def source_mistakes(config: Any) -> Iterator[str]:
    """Check what `new_pipeline` got as its source."""
    if inspect.isclass(config) or not hasattr(config, "decoder"):
        hint = "that is a sink, " if hasattr(config, "encoder") else ""
        yield f"the source must be a source config; got {a_kind_of(config)}: {hint}write {_A_SOURCE}"
        return
    yield from _address_mistakes(config, "source")
    yield from _limit_mistakes(config)
    if hasattr(config, "generator"):
        yield from _generator_mistakes(config.generator)
    yield from _decoder_mistakes(config.decoder)


def sink_mistakes(config: Any) -> Iterator[str]:
    """Check one sink of `to_sink` or `to_sinks`."""
    if inspect.isclass(config) or not hasattr(config, "encoder"):
        hint = "that is a source, " if hasattr(config, "decoder") else ""
        yield f"a sink must be a sink config; got {a_kind_of(config)}: {hint}write {_A_SINK}"
        return
    yield from _address_mistakes(config, "sink")
    yield from _encoder_mistakes(config.encoder)


def sink_list_mistakes(configs: Any) -> Iterator[str]:
    """Check what `to_sinks` got, but for the sinks themselves."""
    if not isinstance(configs, list | tuple):
        yield f"to_sinks needs a list of sinks; got {a_kind_of(configs)}: write to_sinks([{_A_SINK}, ...])"
    elif not configs:
        yield f"to_sinks got an empty list: write to_sinks([{_A_SINK}, ...]), or leave it out to send nothing"


def _address_mistakes(config: Any, role: str) -> Iterator[str]:
    # Only transports that have an address are asked for it.
    if hasattr(config, "host") and not (isinstance(config.host, str) and config.host):
        yield f"the host of the {role} must be a string such as '127.0.0.1'; got {a_kind_of(config.host)}"
    if hasattr(config, "port"):
        try:
            port_number(config.port)
        except WallarooParameterError as error:
            yield f"{role}: {error}"


def _limit_mistakes(config: Any) -> Iterator[str]:
    name = getattr(config, "name", None)
    if name is not None and not (isinstance(name, str) and name):
        yield f"the name of the source config must be a string; got {a_kind_of(name)}"
    for limit in ("parallelism", "max_size", "max_received_count"):
        given = getattr(config, limit, 1)
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            yield f"{limit} of the source must be a whole number, 1 or more; got {a_kind_of(given)}"


def _generator_mistakes(generator: Any) -> Iterator[str]:
    shown = label(generator)
    lacking = [method for method in ("initial_value", "apply") if not callable(getattr(generator, method, None))]
    if lacking:
        yield (
            f"the generator {shown} has no method {_listed(lacking)}: a generator is an object with initial_value(), "
            "which returns the first message, and apply(v), which returns the one after v"
        )
    elif inspect.isclass(generator):
        yield from making_mistakes(generator)
    elif not accepts(generator.initial_value, 0):
        yield (
            f"initial_value of the generator {shown} must allow no arguments; it is written as "
            f"{call_text(generator.initial_value, 'initial_value')}"
        )
    else:
        yield from _call_mistakes(generator.apply, f"the generator {shown}", "apply", "v")


def _decoder_mistakes(decoder: Any) -> Iterator[str]:
    if inspect.isclass(decoder):
        yield f"the decoder is the class {decoder.__name__}: write {decoder.__name__}() to make one"
        return
    if inspect.isroutine(decoder):
        yield f"the decoder is the plain function {label(decoder)}: write @wallaroo.decoder above it"
        return
    lacking = [
        method
        for method in ("header_length", "payload_length", "decode")
        if not callable(getattr(decoder, method, None))
    ]
    if lacking:
        yield (
            f"the decoder {label(decoder)} has no method {_listed(lacking)}: a decoder is a function with "
            "@wallaroo.decoder above it, or an object with header_length(), payload_length(bs) and decode(bs)"
        )
        return
    yield from _call_mistakes(decoder.payload_length, f"the decoder {label(decoder)}", "payload_length", "bs")
    yield from _call_mistakes(decoder.decode, f"the decoder {label(decoder)}", "decode", "bs")
    yield from _header_length_mistakes(decoder)


def _header_length_mistakes(decoder: Any) -> Iterator[str]:
    where = f"header_length() of the decoder {label(decoder)}"
    try:
        length = decoder.header_length()
    except Exception as error:  # noqa: BLE001 - it is the user's code, and whatever it raises is the user's to read
        yield f"{where} failed with {type(error).__name__}: {error}"
        return
    if not isinstance(length, int) or isinstance(length, bool) or not 1 <= length <= _LONGEST_HEADER:
        yield (
            f"{where} must return a whole number of bytes from 1 to {_LONGEST_HEADER}; it returned {a_kind_of(length)}"
        )


def _encoder_mistakes(encoder: Any) -> Iterator[str]:
    if inspect.isclass(encoder):
        yield f"the encoder is the class {encoder.__name__}: write {encoder.__name__}() to make one"
    elif inspect.isroutine(encoder):
        yield f"the encoder is the plain function {label(encoder)}: write @wallaroo.encoder above it"
    elif not callable(getattr(encoder, "encode", None)):
        yield (
            f"the encoder {label(encoder)} has no method encode: an encoder is a function with "
            "@wallaroo.encoder above it, or an object with encode(data)"
        )
    else:
        yield from _call_mistakes(encoder.encode, f"the encoder {label(encoder)}", "encode", "data")


def _call_mistakes(method: Any, owner: str, name: str, parameter: str) -> Iterator[str]:
    if not accepts(method, 1):
        yield (
            f"{name} of {owner} must allow 1 argument, as in {name}({parameter}); it is written as "
            f"{call_text(method, name)}"
        )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and no {names[-1]}"
