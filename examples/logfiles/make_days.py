"""Writes day_1.log to day_5.log: what the web server of a small library might log from Monday to Friday."""

import random
from datetime import datetime, timedelta, timezone

random.seed(2024)

# Addresses that are set aside for examples.
hosts = [f"192.0.2.{n}" for n in range(10, 30)] + [f"198.51.100.{n}" for n in range(5)] + ["2001:db8::17"]

pages = ["/", "/opening-hours", "/catalogue", "/catalogue/maps", "/catalogue/poems?page=2", "/events", "/favicon.ico"]

# Method, return code, and how often it comes up.
answers = [
    ("GET", 200, 60),
    ("GET", 304, 14),
    ("GET", 404, 8),
    ("POST", 201, 4),
    ("POST", 401, 3),
    ("GET", 301, 3),
    ("HEAD", 200, 2),
    ("GET", 500, 1),
]

monday = datetime(2024, 3, 4, tzinfo=timezone.utc)

for day, lines in enumerate([160, 220, 190, 240, 130]):
    seconds = sorted(random.sample(range(24 * 60 * 60), lines))
    with open(f"day_{day + 1}.log", "w") as f:
        for second in seconds:
            time = monday + timedelta(days=day, seconds=second)
            method, code, _ = random.choices(answers, [often for _, _, often in answers])[0]
            host, page, size = random.choice(hosts), random.choice(pages), random.randrange(200, 30_000)
            f.write(f'{host} - - [{time:%d/%b/%Y:%H:%M:%S %z}] "{method} {page} HTTP/1.1" {code} {size}\n')
