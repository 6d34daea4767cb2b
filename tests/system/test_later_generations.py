"""A program of the last generation: a source that makes its own messages, merged with one that listens."""

from collections import defaultdict

from .harness import send


def test_a_generator_and_a_sender_share_states_and_both_continue_after_a_stop(machida, receiver, tmp_path):
    sink = receiver()
    command = ["--application-module", "later_generations", "--in", "main@127.0.0.1:0", "--out", sink.address]
    run = machida(*command, "--resilience-dir", tmp_path / "home").wait_until_ready()
    send(run.address("typed"), [str(number) for number in range(500)])
    run.wait_until(lambda: sum(data.count(b"\n") for data in sink.connections) >= 5500, "all sums")
    run.stop()
    again = machida(*command, "--resilience-dir", tmp_path / "home").wait_until_ready()
    send(again.address("typed"), [str(number) for number in range(500, 700)])
    again.wait_until(lambda: sum(data.count(b"\n") for data in sink.connections) >= 5700, "the rest")
    again.stop()

    by_key = defaultdict(list)
    for line in sink.everything().decode().splitlines():
        key, count, total = map(int, line.split())
        by_key[key].append((count, total))
    numbers = [*range(5000), *range(700)]
    assert by_key.keys() == set(range(10))
    for key, seen in by_key.items():
        mine = [2 * number for number in numbers if number % 10 == key]
        assert [count for count, _ in seen] == list(range(1, len(mine) + 1))
        assert seen[-1][1] == sum(mine)
        steps = [total - before for (_, total), (_, before) in zip(seen, [(0, 0), *seen], strict=False)]
        assert sorted(steps) == sorted(mine)
