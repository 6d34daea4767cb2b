"""Hears how far blocks have got."""


class Told:
    """Keeps what it hears of."""

    def __init__(self, told):
        self._told = told

    def delivered(self, block):
        self._told.append(("delivered", block))

    def committed(self, block, ends):
        self._told.append(("committed", block, dict(ends)))
