"""Where an application's code may live: a script that is run itself, modules beside it, a package somewhere else."""

import random
import socket
import struct
import sys
from collections import defaultdict

import pytest

from .harness import APPS, PATIENCE, dead_letters, payload_of, send, values_by_key

PLANTED = ["numpy", "pandas", "pyarrow", "pyspark", "py4j", "cloudpickle", "json", "uuid", "zipfile", "secrets"]
PRICES = {"apple": 2, "bread": 5, "cheese": 11}


def purchases(number):
    choose = random.Random(number)
    return [f"customer{choose.randrange(50)} {choose.choice(list(PRICES))}" for _ in range(number)]


def totals(messages):
    """Return for each customer what the basket costs after each purchase."""
    found = defaultdict(list)
    for message in messages:
        customer, item = message.split(" ")
        if item in PRICES:
            found[customer].append((found[customer] or [0])[-1] + PRICES[item])
    return found


def size_of(values):
    return sum(len(f"{key} => {value}\n") for key in values for value in values[key])


@pytest.mark.timeout(600)
def test_a_script_with_its_own_serialization_and_then_the_same_with_machida(machida, receiver, tmp_path):
    sink = receiver()
    arguments = ["--in", "127.0.0.1:0", "--out", sink.address, "--resilience-dir", tmp_path / "home"]
    folder = APPS / "script"
    messages = purchases(3000)

    run = machida(*arguments, command=[sys.executable, folder / "basket.py"], folder=tmp_path).wait_until_ready()
    send(run.address("Purchases"), [*messages[:1500], "customer1 dragon"])
    run.wait_until(lambda: sink.size >= size_of(totals(messages[:1500])), "the first totals")
    run.stop()
    assert values_by_key(sink.everything()) == totals(messages[:1500])

    run = machida("--application-module", "basket", *arguments, folder=folder).wait_until_ready()
    send(run.address("Purchases"), ["customer2 unicorn", *messages[1500:]])
    run.wait_until(lambda: sink.size >= size_of(totals(messages)), "the other totals")
    run.stop()
    assert values_by_key(sink.everything()) == totals(messages)

    letters = dead_letters(tmp_path / "home")
    assert [(letter["step"], letter["error"], letter["encoding"]) for letter in letters] == [
        ("price", "KeyError: 'dragon'", "serialize"),
        ("price", "KeyError: 'unicorn'", "serialize"),
    ]
    assert payload_of(letters[0]) == b'{"class": "Purchase", "customer": "customer1", "item": "dragon"}'
    assert letters[1]["message"] == "customer2 buys unicorn"


def test_a_package_from_another_folder_in_a_folder_of_other_users(machida, receiver, tmp_path):
    choose = random.Random(2)
    words = [choose.choice("abcdé") * choose.randrange(1, 60) for _ in range(2000)]
    expected = defaultdict(list)
    for word in words:
        expected[word[0]].append(max(len(word), *expected[word[0]][-1:], 0))
    size = sum(len(f"{key} => {value}\n".encode()) for key in expected for value in expected[key])
    sink = receiver()
    # The current folder belongs to another user.
    folder = tmp_path / "temporary"
    folder.mkdir()
    for name in PLANTED:
        (folder / f"{name}.py").write_text(f"import pathlib\npathlib.Path({str(tmp_path)!r}, 'ran-{name}').touch()\n")
    arguments = ["--in", "127.0.0.1:0", "--out", sink.address, "--resilience-dir", tmp_path / "home"]
    command = ["--application-module", "shop.application", *arguments]
    run = machida(*command, folder=folder, paths=[APPS / "packages"]).wait_until_ready()
    frames = b"".join(struct.pack("<H", len(word.encode())) + word.encode() for word in words)
    with socket.create_connection(run.address("Words"), timeout=PATIENCE) as connection:
        connection.sendall(frames)
        run.wait_until(lambda: sink.size >= size, "all outputs")
        # The connection is still open: a stop does not wait for its sender.
        run.stop()
    assert values_by_key(sink.everything()) == expected
    assert not list(tmp_path.glob("ran-*"))
