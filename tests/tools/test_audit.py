"""The audit of the pinned packages, with the real pip-audit and a service of our own."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.processes import run_python

TOOL = Path(__file__).parents[2] / "tools" / "audit.py"
FLAW = {
    "id": "PYSEC-2099-1",
    "aliases": ["CVE-2099-1"],
    "summary": "It opens all doors.",
    "details": "It opens all doors.",
    "modified": "2099-01-01T00:00:00Z",
    "affected": [
        {
            "package": {"name": "leaky", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.1"}]}],
        }
    ],
}


class Service(HTTPServer):
    """A service that knows of one package with a flaw, and counts what it is asked."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1/query"


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = question["package"]["name"]
        self.server.asked.append(name)
        answer = json.dumps({"vulns": [FLAW]} if name == "leaky" else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        """Keep the screen for the tests."""


@pytest.fixture
def service():
    with Service() as service:
        thread = threading.Thread(target=service.serve_forever)
        thread.start()
        yield service
        service.shutdown()
        thread.join()


@pytest.fixture
def audit(tmp_path):
    """Audit these packages; return the exit code and what was said."""

    def run(url, *packages):
        lock = tmp_path / "requirements.lock"
        lock.write_text("# Pinned.\n" + "".join(f"{package}\n" for package in packages))
        # The answers of earlier runs are not to be used, so nothing is to be found where they are kept.
        service = ["--vulnerability-service", "osv", "--osv-url", url, "--cache-dir", tmp_path / "cache"]
        done = run_python(TOOL, lock, tmp_path / "stamp", *service, code=None)
        assert done.stderr == ""
        return done.returncode, done.stdout

    return run


def test_a_vulnerability_fails_and_is_named(audit, service):
    for _ in range(2):
        code, said = audit(service.url, "fine==2.0", "leaky==1.0")
        assert code == 1
        first, advice = said.splitlines()
        assert first == "leaky 1.0: PYSEC-2099-1 (mended in 1.1). It opens all doors."
        assert "IGNORED" in advice
    assert service.asked == ["fine", "leaky"] * 2


def test_packages_without_vulnerabilities_are_looked_up_once_a_day(audit, service):
    assert audit(service.url, "fine==2.0") == (0, "")
    assert audit(service.url, "fine==2.0") == (0, "")
    assert service.asked == ["fine"]
    assert audit(service.url, "fine==2.0", "better==1.0") == (0, "")
    assert service.asked == ["fine", "fine", "better"]


def test_a_service_that_cannot_be_reached_is_reported_and_does_not_fail(audit, service):
    service.shutdown()
    service.server_close()
    code, said = audit(service.url, "leaky==1.0")
    assert code == 0
    [line] = said.splitlines()
    assert line.startswith("The packages were not audited for known vulnerabilities: ")
