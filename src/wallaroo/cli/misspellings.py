"""Misspelled options: an option unknown to `machida` may belong to the application, or be a mistake.

An option similar to one of machida's is refused, because the run would otherwise continue without what it asks for,
such as a directory for its state. It is the application's own if the program's source contains it, or if it comes after
`--`.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

import click

_CLOSE = 0.85
"""The minimum similarity for one option to be taken for another. One letter of ten makes 0.9."""
_MEANINGFUL = 9
"""The minimum length of an option to be taken for the beginning of another."""
_ALIASES = {
    "--workers": "--worker-count",
    "--num-workers": "--worker-count",
    "--state-dir": "--resilience-dir",
    "--state-directory": "--resilience-dir",
    "--checkpoint-interval": "--time-between-checkpoints",
    "--conf": "--spark-conf",
}
"""What machida's options are called elsewhere."""
END_OF_OPTIONS = "--"


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments that machida parses, and those after `--`, which are for the application only.

    >>> split_arguments(["--name", "a", "--", "--reste", "--"])
    (['--name', 'a'], ['--reste', '--'])
    """
    end = arguments.index(END_OF_OPTIONS) if END_OF_OPTIONS in arguments else len(arguments)
    return list(arguments[:end]), list(arguments[end + 1 :])


def refuse_misspelled(unknown: Iterable[str], known: Sequence[str], program: ModuleType) -> None:
    """Refuse an option that is probably a misspelling of a known one.

    Args:
        unknown: Arguments that are not machida's options.
        known: Options of machida's.
        program: The application's module, whose source may contain the option.

    Raises:
        click.UsageError: One of them is similar to a known option, or another name for it, and the program does not
            contain it.
    """
    for argument in unknown:
        option = argument.partition("=")[0]
        if option.startswith("--") and (meant := _meant(option, known)) and not _has(program, option):
            raise click.UsageError(
                f"no such option {option}: did you mean {meant}? If {option} is an option of the application, put "
                f"`--` in front of the application's own arguments: machida ... -- {argument} ..."
            )


def _meant(option: str, known: Sequence[str]) -> str | None:
    """Return the known option that this one probably stands for.

    >>> known = ["--resilience-dir", "--max-log", "--max-connections", "--name"]
    >>> _meant("--state-dir", known), _meant("--resilience-directory", known), _meant("--resilience", known)
    ('--resilience-dir', '--resilience-dir', '--resilience-dir')
    >>> _meant("--max", known), _meant("--name-of-topic", known)
    (None, None)
    """
    alias = _ALIASES.get(option)
    return alias if alias in known else close_to(option, known) or _continued(option, known)


def _continued(option: str, known: Sequence[str]) -> str | None:
    """Return the only known option that begins with this one, or that this one begins with."""
    # An option of a single word may begin any other name, so only those of several words count.
    found = [
        each
        for each in known
        if (each.startswith(option) and len(option) >= _MEANINGFUL) or (option.startswith(each) and "-" in each[2:])
    ]
    return found[0] if len(found) == 1 else None


def close_to(option: str, known: Sequence[str]) -> str | None:
    """Return the known option that this one is probably meant to be, or None if it is similar to none.

    >>> close_to("--resilence-dir", ["--name", "--resilience-dir"]), close_to("--in", ["--name", "--reset"])
    ('--resilience-dir', None)
    """
    return next(iter(difflib.get_close_matches(option, known, n=1, cutoff=_CLOSE)), None)


def _has(program: ModuleType, option: str) -> bool:
    """Return whether the source of a program, or of a module next to it, contains an option."""
    pattern = re.compile(re.escape(option).encode() + rb"(?![\w-])")
    return any(pattern.search(_source(file)) for file in _files_of(program))


def _files_of(program: ModuleType) -> set[Path]:
    """Return the files of a program's modules: the imported ones in its own folder."""
    files = [getattr(module, "__file__", None) for module in (program, *sys.modules.copy().values())]
    paths = [Path(file) for file in files if file]
    return {path for path in paths if path.suffix == ".py" and path.parent == paths[0].parent}


def _source(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
