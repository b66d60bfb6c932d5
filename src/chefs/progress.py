"""Progress of chains that run elsewhere: each leaves a note in a folder, one thread shows them all."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

SECONDS_BETWEEN = 0.5


@dataclass
class Note:
    """What one chain says about itself."""

    done: int  # steps made, warm-up included
    total: int
    draws: int
    moves_per_second: float
    acceptance: float
    n_nodes: int
    seconds_left: float


class Notes:
    """Writes the notes of one chain, not more often than twice a second; silent where there is no folder."""

    def __init__(self, folder: Path | None, chain: int) -> None:
        self.path = folder / f"progress-{chain}.json" if folder is not None else None
        self.last = 0.0

    def due(self) -> bool:
        """Whether it is time for another note."""
        return self.path is not None and time.monotonic() - self.last >= SECONDS_BETWEEN

    def write(self, note: Note) -> None:
        """Leave a note, if anybody looks. Progress is a courtesy: where it cannot be written, the run goes on."""
        self.last = time.monotonic()
        if self.path is None:
            return
        aside = self.path.with_suffix(".part")
        try:
            aside.write_text(json.dumps(asdict(note)))
            aside.replace(self.path)
        except OSError:
            self.path = None


def wanted(progress: bool | None) -> bool:
    """Whether to show progress: as asked, or where nobody asked, on a terminal."""
    return sys.stderr.isatty() if progress is None else progress


@contextmanager
def shown(folder: Path | None, chains: int) -> Iterator[None]:
    """Show the notes in `folder` while the block runs."""
    if folder is None:
        yield
        return
    from rich.console import Console
    from rich.live import Live

    stop = threading.Event()

    def show() -> None:
        with Live(console=Console(stderr=True), refresh_per_second=4, transient=False) as live:
            while True:
                last = stop.wait(SECONDS_BETWEEN)
                live.update(table(folder, chains))
                if last:
                    return

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def table(folder: Path, chains: int):
    """The notes of all chains as a rich table."""
    from rich.table import Table

    view = Table("chain", "done", "draws", "moves/s", "accepted", "nodes", "time left")
    for chain in range(chains):
        try:
            note = Note(**json.loads((folder / f"progress-{chain}.json").read_text()))
        except (OSError, ValueError, TypeError):
            view.add_row(str(chain), "waiting", "", "", "", "", "")
            continue
        minutes, seconds = divmod(int(note.seconds_left), 60)
        view.add_row(
            str(chain),
            f"{note.done / max(note.total, 1):.0%}",
            f"{note.draws}",
            f"{note.moves_per_second:,.0f}",
            f"{note.acceptance:.0%}",
            f"{note.n_nodes}",
            f"{minutes}:{seconds:02d}",
        )
    return view
