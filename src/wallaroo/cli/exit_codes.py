"""The exit codes of `machida` and `wallaroo send`: one table each for the help, the reference and the tests."""

from __future__ import annotations

EXIT_CODES = {
    0: "stopped on request",
    1: "cannot continue, or any other failure",
    2: "a mistake in the command line",
    3: "the application cannot be imported or built, or cannot load the states that it has saved",
    4: "cannot listen on an address, or a receiver's name is unknown",
    5: "the directory cannot be used, is in use, or holds another application's state",
    6: "Java or Spark cannot be started",
    7: "too many errors in the application's code, by --on-error",
}

SEND_EXIT_CODES = {
    0: "everything was sent, and the receiver has confirmed all of it (with --wait 0: sent)",
    1: "no receiver, an input that cannot be read or framed, or any other failure",
    2: "a mistake in the command line",
    8: "not confirmed: the connection broke or ended early, or the receiver took longer than --wait",
    130: "stopped by Ctrl-C, not confirmed",
}


def exit_codes_help(table: dict[int, str]) -> str:
    """Return a table for click's help; the leading character keeps its lines from being rewrapped."""
    width = max(len(str(code)) for code in table)
    lines = (f"  {code:>{width}}  {meaning}" for code, meaning in table.items())
    return "\b\nExit codes:\n" + "\n".join(lines)
