"""`wallaroo connect http-post` beside an application that does not confirm what it gets."""

import http.client
import re
import socket
import sys

import pytest

from wallaroo.connectors.extension.protocol import hello

from ..processes import Process  # noqa: TID252 - tests are not installed

PATIENCE = 60


@pytest.fixture
def application():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        yield server


@pytest.fixture
def script(application):
    port = application.getsockname()[1]
    program = "import wallaroo.connect.http_post as script; script._WAIT_SECONDS = 0.1; script.command()"
    made = Process([sys.executable, "-c", program, f"127.0.0.1:{port}", "--listen", "127.0.0.1:0"])
    yield made
    made.clean_up()


def test_what_the_application_does_not_confirm_is_not_taken(application, script):
    connection, _ = application.accept()
    with connection:
        connection.sendall(hello("application", accepted=0, largest=10))
        script.wait_until(lambda: "listening on" in script.output, "listening")
        port = int(re.search(r"http://127.0.0.1:(\d+)", script.output)[1])

        def post(body, **headers):
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            client.request("POST", "/", body, headers)
            answer = client.getresponse()
            text = answer.read().decode()
            client.close()
            return answer.status, text

        assert post("x" * 11)[0] == 400
        script.wait_until(lambda: "1 request left out: A message of 11 bytes" in script.output, "a notice")
        assert post("hello", Sequence="1") == (400, "a Sequence needs a Partition, the name of what it counts\n")
        assert post("hello", Partition="p", Sequence="first") == (400, "the Sequence must be a whole number\n")
        for _ in range(2):
            assert post("hello") == (503, "the application does not answer: try again later\n")
        connection.sendall(b"\xff" * 100)
        assert script.exit_code() == 1
    assert "Error: What listens at" in script.output
    assert "Traceback" not in script.output
