"""Looks up the pinned packages among the known vulnerabilities; a part of `make lint`.

Fails where one is found. Where the service that knows them cannot be reached, it says so in a line and lets the build
continue. The answer is kept in a file beside the environment: for a day, or for an hour if there was none.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

IGNORED: dict[str, str] = {}
"""Findings that do not apply here: their ids, each with the reason."""

REQUEST_SECONDS = 5
ALL_SECONDS = 120
KEPT_SECONDS = 24 * 3600
KEPT_WITHOUT_ANSWER_SECONDS = 3600


class NotAuditedError(Exception):
    """There was no answer."""


def findings(lock: Path, service: list[str]) -> tuple[list[str], str]:
    """Return a line for each vulnerability, and one about the packages that the service does not know."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", lock, "--no-deps", "--disable-pip", *service]
    command += ["--format", "json", "--progress-spinner", "off", "--timeout", str(REQUEST_SECONDS)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ALL_SECONDS)  # noqa: S603
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise NotAuditedError("the service did not answer in time") from None
    except ValueError:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NotAuditedError(said[-1] if said else f"pip-audit ended with {done.returncode}") from None
    packages = answer["dependencies"]
    known = [package for package in packages if "skip_reason" not in package]
    if not known:
        raise NotAuditedError("the service knows none of the packages, so it is not the one of PyPI")
    found = [_told(package, flaw) for package in known for flaw in package["vulns"] if not _is_ignored(flaw)]
    unknown = ", ".join(package["name"] for package in packages if "skip_reason" in package)
    return found, f"Not audited, because the service does not know them: {unknown}." if unknown else ""


def _is_ignored(flaw: dict[str, Any]) -> bool:
    return not IGNORED.keys().isdisjoint([flaw["id"], *flaw.get("aliases", [])])


def _told(package: dict[str, Any], flaw: dict[str, Any]) -> str:
    mended = ", ".join(flaw["fix_versions"]) or "no version yet"
    return f"{package['name']} {package['version']}: {flaw['id']} (mended in {mended}). {flaw['description']:.200}"


def audit(lock: Path, stamp: Path, service: list[str]) -> int:
    """Audit the packages in `lock`, unless that was done a while ago; return the exit code."""
    digest = hashlib.sha256(lock.read_bytes() + repr((IGNORED, service)).encode()).hexdigest()
    kept = json.loads(stamp.read_text()) if stamp.exists() else {}
    if kept.get("digest") == digest and time.time() < kept["until"]:
        _say(kept["line"])
        return 0
    keep = KEPT_SECONDS
    try:
        found, line = findings(lock, service)
    except NotAuditedError as error:
        found, line = [], f"The packages were not audited for known vulnerabilities: {error}."
        keep = KEPT_WITHOUT_ANSWER_SECONDS
    _say(line)
    if found:
        _say(*found, f"Pin other versions in {lock}; what does not apply goes into IGNORED in tools/audit.py.")
        return 1
    stamp.write_text(json.dumps({"digest": digest, "until": time.time() + keep, "line": line}))
    return 0


def _say(*lines: str) -> None:
    for line in filter(None, lines):
        print(line)


def main() -> int:
    """Run from the command line; options that are not our own go to pip-audit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lock", type=Path, help="the file with the pinned packages")
    parser.add_argument("stamp", type=Path, help="the file that keeps the answer")
    given, service = parser.parse_known_args()
    return audit(given.lock, given.stamp, service)


if __name__ == "__main__":
    sys.exit(main())
