"""One pure Python loop on one core: the user's own functions called one after the other, and nothing else."""

from __future__ import annotations

from apps import word_count


def run(payloads: list[bytes]) -> list[bytes]:
    """Return the encoded output for each word."""
    decode = word_count.decode.decode
    split = word_count.split.compute_multi
    partition = word_count.first_letter.partition
    compute = word_count.count_word.compute
    encode = word_count.encode.encode
    states = {key: word_count.WordTotals() for key in word_count.KEYS}
    outputs = []
    for payload in payloads:
        for word in split(decode(payload)):
            output, _ = compute(word, states[partition(word)])
            outputs.append(encode(output))
    return outputs
