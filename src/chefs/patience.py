"""Ctrl-C that waits for the end of a step.

Python raises KeyboardInterrupt at the first bytecode after the signal. Where compiled code builds its result, that is
inside of numba, which does not expect it and crashes; and in the midst of a step a state is not worth keeping.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def patient() -> Iterator[list[int]]:
    """Note Ctrl-C in the list that is given out, and raise KeyboardInterrupt when the block ends; a second one at once.

    Python handles signals in the main thread alone: elsewhere nothing is changed.

    >>> with patient() as asked:
    ...     asked
    []
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    usual: Any = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        if asked and callable(usual):
            usual(number, frame)
        asked.append(number)

    if usual in (signal.SIG_IGN, None):  # nobody is to be interrupted
        yield asked
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, usual)
    if asked:
        raise KeyboardInterrupt


@contextmanager
def plain() -> Iterator[None]:
    """Raise KeyboardInterrupt where compiled code, interrupted as it built its result, has made a SystemError of it.

    For what takes too long to wait for its end, and leaves nothing behind that is worth keeping.
    """
    try:
        yield
    except SystemError as error:
        reason: BaseException | None = error
        while reason is not None and not isinstance(reason, KeyboardInterrupt):
            reason = reason.__cause__ or reason.__context__
        if reason is None:
            raise
        raise KeyboardInterrupt from None
