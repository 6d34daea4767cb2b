"""Letters of words."""


def first(word):
    return word[0]
