"""The Redis server of the tests."""


def test_what_it_has_confirmed_is_there_after_a_kill_and_after_a_stop(redis):
    redis.client.rpush("words", "to", "be")
    for end in (redis.kill, redis.stop):
        address, pid = redis.url, redis.pid
        end()
        redis.start()
        assert redis.url == address
        assert redis.pid != pid
        assert redis.client.lrange("words", 0, -1) == [b"to", b"be"]
