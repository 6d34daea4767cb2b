"""Sends what is published on a channel of Redis to the application.

python redis_subscriber.py --redis 127.0.0.1:6379 --channel text --text-stream 127.0.0.1:7100
"""

import argparse
import sys

import redis

from text_documents import TextStream, parse_text_stream_addr


def main(args):
    parser = argparse.ArgumentParser()
    parser.add_argument("--redis", default="127.0.0.1:6379")
    parser.add_argument("--channel", default="text")
    options = parser.parse_known_args(args)[0]
    extension = TextStream(*parse_text_stream_addr(args)).extension()

    subscription = redis.Redis.from_url(f"redis://{options.redis}").pubsub()
    subscription.subscribe(options.channel)
    for came in subscription.listen():
        if came["type"] == "message":
            extension.write(came["data"].decode("utf-8"))
        else:
            print(f"subscribed to {options.channel}", flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        pass
