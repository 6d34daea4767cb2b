"""What an outbox has collected."""


def taken(outbox, part=0, partitions=1):
    """Return the chunks in an outbox, and empty it."""
    shares = [[] for _ in range(partitions)]
    outbox.share_out(part, shares, 0)
    return [chunk for share in shares for chunk in share]
