"""`wallaroo connect`: each script, with a real server at its other end, beside one application."""

import http.client
import os
import signal
import socket
import sys
import threading

import pytest
from tests.processes import run_python

from .connected import Connected
from .harness import PATIENCE, send

STREAMS = """
import wallaroo.experimental

class Numbers:
    def __init__(self, host, port):
        self.address = host, port

    def extension(self):
        extension = wallaroo.experimental.SourceExtension(encode)
        extension.connect(*self.address)
        return extension

@wallaroo.experimental.streaming_message_encoder
def encode(number):
    return "number %d" % number

@wallaroo.experimental.streaming_message_decoder
def decode(message):
    key, value = message.decode().split(" => ")
    return key.upper(), value
"""
SOURCES = ("channel", "list", "stream", "datagrams", "file", "requests")


@pytest.fixture(scope="module")
def connected(tmp_path_factory):
    """Return the application, which all tests share: each has messages of its own."""
    made = Connected(tmp_path_factory.mktemp("connected") / "state", SOURCES, sinks=2)
    yield made
    made.clean_up()


def numbered(beginning, low, high):
    return [f"{beginning}{number}" for number in range(low, high)]


def test_a_list_and_a_stream_once_each_though_redis_and_the_scripts_are_killed(connected, redis):
    ways = {
        "redis-list": ("list", lambda pipe, each: pipe.rpush("orders", each)),
        "redis-stream": ("stream", lambda pipe, each: pipe.xadd("entries", {"order": each})),
    }
    keys = {"redis-list": ("--key", "orders"), "redis-stream": ("--key", "entries", "--field", "order")}

    def start(name):
        address = connected.address(ways[name][0])
        return connected.script(name, address, "--redis", redis.url, *keys[name], until="connected to")

    def add(low, high):
        with redis.client.pipeline() as pipe:
            for name, (_, push) in ways.items():
                for each in numbered(f"{name} ", low, high):
                    push(pipe, each)
            pipe.execute()

    add(0, 1500)
    scripts = {name: start(name) for name in ways}
    for name, script in scripts.items():
        script.wait_until(lambda name=name: len(connected.seen(name)) > 100, "some messages")
    redis.kill()
    redis.start()
    add(1500, 3000)
    for name, script in scripts.items():
        script.wait_until(lambda name=name: len(connected.seen(name)) > 1600, "some messages after that")
        script.kill()
    add(3000, 4000)
    scripts = {name: start(name) for name in ways}
    for name in ways:
        connected.wait_for(numbered(f"{name} ", 0, 4000), f"{name} ")
    # What the application has on its disk is removed from the list.
    scripts["redis-list"].wait_until(lambda: redis.client.llen("orders") == 0, "the list being empty")
    for script in scripts.values():
        script.stop()


def test_a_list_that_redis_has_lost_elements_of_counts_again_from_there(connected, redis):
    arguments = connected.address("list"), "--redis", redis.url, "--key", "lossy"
    redis.client.rpush("lossy", *numbered("before ", 0, 10))
    script = connected.script("redis-list", *arguments)
    script.wait_until(lambda: redis.client.llen("lossy") == 0, "the list being empty")
    script.stop()
    # As after a crash of a Redis that does not write everything to its disk at once.
    [name] = redis.client.hkeys("lossy:removed")
    redis.client.hset("lossy:removed", name, 3)
    redis.client.rpush("lossy", "after 0", "after 1")
    script = connected.script("redis-list", *arguments, until="Redis has lost elements of lossy")
    connected.wait_for(numbered("after ", 0, 2), "after ")
    script.stop()


def test_what_is_published_arrives_also_after_redis_was_away(connected, redis):
    script = connected.script(
        "redis-subscriber", connected.address("channel"), "--redis", redis.url, "--channel", "text", until="subscribed"
    )
    for each in numbered("published ", 0, 100):
        redis.client.publish("text", each)
    connected.wait_for(numbered("published ", 0, 100), "published ")
    redis.kill()
    script.wait_until(lambda: "Waiting for Redis" in script.output, "noticing it")
    redis.start()
    script.wait_until(lambda: script.output.count("subscribed to text") == 2, "subscribing again")
    assert "Redis is there again." in script.output
    for each in numbered("published ", 100, 200):
        redis.client.publish("text", each)
    connected.wait_for(numbered("published ", 0, 200), "published ")
    script.stop()


def test_a_redis_that_disappears_silently_is_noticed(connected, redis):
    script = connected.script(
        "redis-subscriber", connected.address("channel"), "--redis", redis.url, "--channel", "text", until="subscribed"
    )
    os.kill(redis.pid, signal.SIGSTOP)
    try:
        script.wait_until(lambda: "Waiting for Redis: it does not answer" in script.output, "noticing it")
    finally:
        os.kill(redis.pid, signal.SIGCONT)
    script.wait_until(lambda: script.output.count("subscribed to text") == 2, "subscribing again")
    script.stop()


def test_a_hash_has_the_last_value_of_each_field_though_redis_was_away(connected, redis):
    script = connected.script("redis-hash", connected.to[0], "--redis", redis.url, "--key", "counts")
    other = connected.script("udp-sink", connected.to[1], "--to", "127.0.0.1:9")
    lines = connected.run.address("lines")
    send(lines, [f"word{number % 50} => {number}" for number in range(500)])
    script.wait_until(lambda: redis.client.hget("counts", "word49") == b"499", "the first half")
    redis.kill()
    send(lines, [f"word{number % 50} => {number}" for number in range(500, 1000)])
    script.wait_until(lambda: "Waiting for Redis" in script.output, "noticing it")
    redis.start()
    expected = {f"word{number % 50}".encode(): str(number).encode() for number in range(1000)}
    script.wait_until(lambda: redis.client.hgetall("counts") == expected, "the last values")
    script.stop()
    other.stop()


def test_datagrams_come_in_and_go_out(connected, redis):
    other = connected.script("redis-hash", connected.to[0], "--redis", redis.url, "--key", "counts")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiving:
        receiving.bind(("127.0.0.1", 0))
        receiving.settimeout(PATIENCE)
        to = "{}:{}".format(*receiving.getsockname())
        script = connected.script("udp-sink", connected.to[1], "--to", to)
        # Each before the next: nothing may be lost because of a full buffer.
        for each in numbered("out => ", 0, 50):
            send(connected.run.address("lines"), [each])
            while (came := receiving.recv(1000).decode()) != each:
                assert came.startswith("word"), came  # Of the test before, if the sink had not read everything.
        script.stop()
    other.stop()
    source = connected.script(
        "udp-source", connected.address("datagrams"), "--listen", "127.0.0.1:0", until="receiving on"
    )
    port = int(source.output.split("receiving on 127.0.0.1:")[1].split()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        for each in numbered("in ", 0, 50):
            sending.sendto(each.encode(), ("127.0.0.1", port))
    connected.wait_for(numbered("in ", 0, 50), "in ")
    source.stop()


def test_each_line_of_a_file_once_though_it_is_rotated_and_the_script_killed(connected, tmp_path):
    path = tmp_path / "access.log"

    def append(lines, end="\n"):
        with path.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines[:-1]) + lines[-1] + end)

    def start():
        return connected.script("file-tail", connected.address("file"), path, until="connected to")

    append(numbered("line ", 0, 300))
    script = start()
    script.wait_until(lambda: len(connected.seen("line ")) > 10, "some lines")
    script.kill()
    append(numbered("line ", 300, 500), end=" and more")
    script = start()
    script.wait_until(lambda: len(connected.seen("line ")) == 499, "all whole lines")
    append([""])
    path.rename(tmp_path / "access.log.1")
    append(numbered("line ", 500, 700))
    expected = [*numbered("line ", 0, 499), "line 499 and more", *numbered("line ", 500, 700)]
    connected.wait_for(expected, "line ")
    # Truncated in its place, as `copytruncate` of logrotate does, and shorter than before.
    os.truncate(path, 0)
    script.wait_until(lambda: script.is_running, "running")
    append(numbered("line ", 700, 720))
    expected += numbered("line ", 700, 720)
    connected.wait_for(expected, "line ")
    script.stop()
    again = connected.script("file-tail", connected.address("file"), path, "--once")
    assert again.exit_code() == 0, again.output
    connected.wait_for(expected, "line ")


def test_requests_are_answered_when_the_application_has_them_and_repeats_count_once(connected):
    script = connected.script(
        "http-post", connected.address("requests"), "--listen", "127.0.0.1:0", until="listening on http://"
    )
    port = int(script.output.split("http://127.0.0.1:")[1].split()[0])

    def post(number):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        for _ in range(2):
            connection.request("POST", "/", f"request {number}", {"Partition": "a client", "Sequence": str(number)})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 204
        connection.close()

    for number in range(3):
        post(number)
    threads = [threading.Thread(target=post, args=(3,)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    connected.wait_for(numbered("request ", 0, 4), "request ")

    def refused(headers, body=b""):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        connection.putrequest("POST", "/")
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    assert refused({}) == (411, "the request has no Content-Length\n")
    assert refused({"Content-Length": str(1 << 40)}) == (413, "at most 16,777,216 bytes\n")
    assert refused({"Content-Length": "1", "Sequence": "first"}, b"x")[0] == 400
    script.stop()


def test_scripts_that_new_writes_run_as_they_are(connected, redis, tmp_path):
    for name, options in (("my_source", ()), ("my_sink", ("--sink",))):
        done = connected.script("new", name, *options, cwd=tmp_path)
        assert done.exit_code() == 0, done.output
    other = connected.script("redis-hash", connected.to[0], "--redis", redis.url, "--key", "counts")
    lines = "".join(f"typed {number}\n" for number in range(20))
    address = connected.address("channel")
    run_python("my_source.py", address, cwd=tmp_path, input=lines)
    connected.wait_for(numbered("typed ", 0, 20), "typed ")
    sink = connected.run_beside([sys.executable, "-u", "my_sink.py", connected.to[1]], cwd=tmp_path)
    send(connected.run.address("lines"), numbered("printed => ", 0, 20))
    expected = numbered("printed => ", 0, 20)
    sink.wait_until(lambda: [line for line in sink.output.splitlines() if line in expected] == expected, "all lines")
    sink.kill()
    other.stop()


def test_a_stream_is_described_in_a_module(connected, redis, tmp_path):
    (tmp_path / "streams.py").write_text(STREAMS)
    described = "--application-module", "streams", "--stream"
    source = connected.script(
        *("redis-list", connected.address("list"), "--redis", redis.url, "--key", "numbers", "--codec", "json"),
        *(*described, "Numbers"),
        cwd=tmp_path,
    )
    # The encoder fails for text.
    redis.client.rpush("numbers", "1", "not a number", '"three"', "2")
    connected.wait_for(["number 1", "number 2"], "number ")
    source.wait_until(lambda: "1 message left out: b'not a number' is not JSON" in source.output, "a notice")
    other = connected.script("udp-sink", connected.to[1], "--to", "127.0.0.1:9")
    sink = connected.script(
        *("redis-hash", connected.to[0], "--redis", redis.url, "--key", "pairs", *described, "decode"), cwd=tmp_path
    )
    send(connected.run.address("lines"), ["a => 1", "b => 2"])
    sink.wait_until(lambda: redis.client.hmget("pairs", "A", "B") == [b"1", b"2"], "the pairs")
    for script in (source, sink, other):
        script.stop()


def test_what_cannot_be_sent_is_left_out_and_counted(connected, redis):
    entries = connected.script(
        *("redis-stream", connected.address("stream"), "--redis", redis.url, "--key", "mixed", "--partition", "other")
    )
    redis.client.xadd("mixed", {"it": b"\xff"})
    redis.client.xadd("mixed", {"mixed": "text"})
    connected.wait_for(['{"mixed": "text"}'], '{"mixed')
    entries.wait_until(lambda: "1 message left out: " in entries.output, "a notice")
    hashed = connected.script(
        *("redis-hash", connected.to[0], "--redis", redis.url, "--key", "some", "--codec", "bytes", "--separator", "=")
    )
    datagrams = connected.script("udp-sink", connected.to[1], "--to", "127.0.0.1:9")
    send(connected.run.address("lines"), ["x" * 70_000, "a=1"])
    hashed.wait_until(lambda: redis.client.hget("some", "a") == b"1", "the value")
    hashed.wait_until(lambda: "1 output left out: b'xxx" in hashed.output, "a notice")
    datagrams.wait_until(lambda: "1 output left out: 70,000 bytes cannot be sent" in datagrams.output, "a notice")
    for script in (entries, hashed, datagrams):
        script.stop()
