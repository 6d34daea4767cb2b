"""Publishes each line of a file on a channel of Redis.

python publish.py --redis 127.0.0.1:6379 --channel text documents.txt
"""

import argparse
from pathlib import Path

import redis

parser = argparse.ArgumentParser()
parser.add_argument("--redis", default="127.0.0.1:6379")
parser.add_argument("--channel", default="text")
parser.add_argument("file", type=Path)
options = parser.parse_args()

client = redis.Redis.from_url(f"redis://{options.redis}")
lines = options.file.read_text().splitlines()
for line in lines:
    client.publish(options.channel, line)
print(f"published {len(lines)} lines")
