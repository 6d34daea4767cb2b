"""What `machida` ends with: one table for its help, the guide and the tests."""

from __future__ import annotations

EXIT_CODES = {
    0: "stopped as asked",
    1: "cannot go on, or any other failure",
    2: "the command line makes no sense",
    3: "the application cannot be imported or built",
    4: "an address cannot be listened at, or a receiver's name is unknown",
    5: "the directory cannot be used, is in use, or holds another application's state",
    6: "Java or Spark cannot be started",
    7: "too many errors in the application's code, by --on-error",
}


def exit_codes_help() -> str:
    """Return the table as click shows it: the character in front keeps its lines apart."""
    lines = (f"  {code}  {meaning}" for code, meaning in EXIT_CODES.items())
    return "\b\nExit codes:\n" + "\n".join(lines)
