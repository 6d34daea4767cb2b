"""Puts the files of the last run in order before they are read: power failures and failing disks leave their marks."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path

from wallaroo.connectors.base import Notice
from wallaroo.engine.delivery.ledger import Ledger
from wallaroo.engine.directory.checkpoint import mend_checkpoint
from wallaroo.engine.directory.home import Home
from wallaroo.engine.directory.progress import log_without
from wallaroo.ingress.log_repair import skip_damaged


def mend(home: Home, skipped: Iterable[Path], notice: Notice) -> None:
    """Mend what can be mended without a loss; the logs `skipped` are to go on without what is damaged in them."""
    aside = home.path / "damaged" / time.strftime("%Y-%m-%dT%H-%M-%S")

    def forget(batch: int) -> None:
        with closing(Ledger(home.ledger)) as ledger:
            ledger.forget_from(batch)

    mend_checkpoint(home.checkpoint, aside, forget, partial(log_without, home), notice)
    for log in skipped:
        for text in skip_damaged(log):
            notice(text)
