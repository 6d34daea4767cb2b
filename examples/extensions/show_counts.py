"""Prints a hash of Redis, the largest counts first.

python show_counts.py --redis 127.0.0.1:6379 --hash counts
"""

import argparse

import redis

parser = argparse.ArgumentParser()
parser.add_argument("--redis", default="127.0.0.1:6379")
parser.add_argument("--hash", default="counts")
options = parser.parse_args()

counts = redis.Redis.from_url(f"redis://{options.redis}", decode_responses=True).hgetall(options.hash)
for word, count in sorted(counts.items(), key=lambda item: (-int(item[1]), item[0])):
    print(f"{word} => {count}")
