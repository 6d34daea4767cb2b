"""A recording double of `Progress`."""


class RecordingProgress:
    """Appends each call to a list."""

    def __init__(self, calls):
        self._calls = calls
        self._on_disk = 0

    def delivered(self, block):
        self._calls.append(("delivered", block))

    def committed(self, block, ends):
        self._calls.append(("committed", block, dict(ends)))

    def end_epoch_of(self, block):
        self._calls.append(("end epoch of", block))

    def force(self):
        self._on_disk += 2
        self._calls.append(("on disk", self._on_disk))
        return self._on_disk
