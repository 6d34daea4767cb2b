"""Sizes of words."""


class Largest:
    def __init__(self):
        self.size = 0

    def see(self, word):
        self.size = max(self.size, len(word))
        return self.size
