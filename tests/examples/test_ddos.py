"""The README of `examples/ddos`, followed."""

import math

from .readme import EXAMPLES, expect_shown


def alarms(times):
    """Return when the requests of one address are an attack, and their rate, summed up afresh for each request."""
    found, attacks = [], False
    for position, now in enumerate(times):
        rate = sum(2 ** -((now - then) / 5) for then in times[: position + 1]) * math.log(2) / 5
        if not attacks and rate > 10:
            found.append((now, rate))
        attacks = rate > (5 if attacks else 10)
    return found


def by_address(lines):
    found = {}
    for line in lines:
        found.setdefault(line.split(" ")[1], []).append(line)
    return found


def test_each_attack_is_reported_once(walkthrough):
    times = {}
    for line in (EXAMPLES / "ddos" / "requests.txt").read_text().splitlines():
        time, address, *_ = line.split(" ")
        times.setdefault(address, []).append(float(time))
    own = "127.0.0.1"
    times[own] = [200.0] * 100
    expected = {
        address: [f"{time:.3f} {address} attacks: {rate:.1f} requests a second" for time, rate in found]
        for address in times
        if (found := alarms(times[address]))
    }
    assert len(times) == 55
    assert sorted(map(len, expected.values())) == [1, 1, 1, 2]
    walk = walkthrough("ddos")

    receiver = walk.start("wallaroo receive")
    walk.start("machida")
    walk.run("wallaroo send")
    walk.wait_for_lines(receiver, 4)
    assert own not in receiver.stdout.decode()
    walk.run("for i in")
    walk.wait_for_lines(receiver, 5)
    walk.make_data_again("python make_requests.py", "requests.txt")
    walk.finish()

    lines = receiver.stdout.decode().splitlines()
    assert by_address(lines) == expected
    expect_shown(walk.shown, lines)
