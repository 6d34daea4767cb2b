"""Writes the counts to a hash of Redis.

python redis_hash.py --redis 127.0.0.1:6379 --hash counts --count-stream 127.0.0.1:7200
"""

import argparse
import sys

import redis

from word_counts import CountStream, parse_count_stream_addr


def main(args):
    parser = argparse.ArgumentParser()
    parser.add_argument("--redis", default="127.0.0.1:6379")
    parser.add_argument("--hash", default="counts")
    options = parser.parse_known_args(args)[0]
    address = parse_count_stream_addr(args)
    extension = CountStream(*address).extension()
    print("listening on {}:{}".format(*address), flush=True)

    client = redis.Redis.from_url(f"redis://{options.redis}")
    while True:
        word, count = extension.read()
        client.hset(options.hash, word, count)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        pass
