"""Hears how far blocks have got."""


class Told:
    """Keeps what it hears of."""

    def __init__(self, told):
        self._told = told
        self._on_disk = 0

    def delivered(self, block):
        self._told.append(("delivered", block))

    def committed(self, block, ends):
        self._told.append(("committed", block, dict(ends)))

    def end_epoch_of(self, block):
        self._told.append(("end epoch of", block))

    def force(self):
        self._on_disk += 2
        self._told.append(("on disk", self._on_disk))
        return self._on_disk
