"""Files that are whole or not there, and that know what they are.

A file begins with a line that holds the digest of all that follows, then a line of JSON: the run it belongs to, its
name in the folder of the run, and what its reader wants to know first. After that come any bytes. It is written aside,
flushed and renamed, so a crash leaves the old file or the new one; a file that was cut short, changed, or put in the
place of another is told apart when it is read.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

try:
    import fcntl
except ImportError:  # Windows: runs are written without the lock
    fcntl = None

MAGIC = b"chefs 1 "
GRACE_SECONDS = 1.0  # how long a process that was just killed, or a thread that stops, may take to let go of a folder


class RunError(RuntimeError):
    """A run could not be written, read or continued; the message says what is safe and what to do."""


@dataclass(frozen=True, slots=True)
class Store:
    """The files of one run, by their names in its folder; the file named "run" says which run it is."""

    folder: Path
    run: str

    @classmethod
    def new(cls, folder: Path) -> Store:
        """A run without files; a folder that already holds something is left alone."""
        try:
            if folder.exists() and (not folder.is_dir() or not all(map(_is_left_over, folder.iterdir()))):
                raise FileExistsError(
                    f"{folder} exists and is not empty: choose another path, or continue it with chefs.resume"
                )
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise
        except OSError as error:
            raise RunError(f"cannot make the folder {folder}: {_cause(error)}") from error
        return cls(folder, uuid.uuid4().hex)

    @classmethod
    def open(cls, folder: Path) -> tuple[Store, dict[str, Any], bytes]:
        """The run in a folder, and what its first file says."""
        if not (folder / "run").exists():
            raise RunError(f"{folder} is not a run of chefs: it has no file named 'run'")
        facts, body = _unsealed(folder / "run")
        store = cls(folder, facts["run"])
        store._check_place("run", facts)
        return store, facts, body

    def write(self, name: str, facts: Mapping[str, Any], body: bytes = b"") -> None:
        """Put a file in place. After a crash at any moment it is the old one or the new one."""
        path = self.folder / name
        sealed = json.dumps({"run": self.run, "file": name, **facts}).encode() + b"\n" + body
        aside = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            path.parent.mkdir(exist_ok=True)
            with open(aside, "wb") as file:
                file.write(MAGIC + _digest(sealed) + b"\n" + sealed)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)
            _sync_folder(path.parent)
        except OSError as error:
            raise RunError(
                f"cannot write {path}: {_cause(error)}; what was written before is whole and readable"
            ) from error
        finally:
            aside.unlink(missing_ok=True)

    def read(self, name: str) -> tuple[dict[str, Any], bytes]:
        """What `write` wrote, or a sentence that says what is wrong with the file."""
        facts, body = _unsealed(self.folder / name)
        self._check_place(name, facts)
        return facts, body

    def _check_place(self, name: str, facts: Mapping[str, Any]) -> None:
        if facts["run"] != self.run:
            raise RunError(f"{self.folder / name} belongs to another run")
        if facts["file"] != name:
            raise RunError(f"{self.folder / name} is a copy of {facts['file']}: it was put in the wrong place")

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return (self.folder / name).exists()

    def remove(self, name: str) -> None:
        """Take a file away, if there is one."""
        (self.folder / name).unlink(missing_ok=True)

    @contextmanager
    def alone(self, subfolder: str = "") -> Iterator[None]:
        """Hold the folder, or one in it, against other processes; what killed ones left half-written is removed."""
        home = self.folder / subfolder
        try:
            lock = open(home / ".lock", "w")  # noqa: SIM115, its own errors differ from those of the block
        except OSError as error:
            raise RunError(f"cannot write to {home}: {_cause(error)}") from error
        with lock:
            patience = time.monotonic() + GRACE_SECONDS
            while not _taken(lock):
                if time.monotonic() > patience:
                    raise RunError(f"another process is writing to {home}: wait for it, or stop it")
                time.sleep(0.05)
            for half_written in home.glob(".*.part"):
                half_written.unlink(missing_ok=True)
            yield


def _taken(lock: IO[str]) -> bool:
    """Lock a file for this process, unless another has it; where there are no locks, go on without."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    return True


def _is_left_over(path: Path) -> bool:
    """Whether a run that was killed before it began left this behind."""
    return path.name == ".lock" or (path.name.startswith(".") and path.name.endswith(".part"))


def _unsealed(path: Path) -> tuple[dict[str, Any], bytes]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise RunError(f"{path} is missing") from None
    except OSError as error:
        raise RunError(f"cannot read {path}: {_cause(error)}") from error
    first, _, sealed = content.partition(b"\n")
    if not first.startswith(MAGIC):
        raise RunError(f"{path} was not written by this version of chefs, or its beginning is damaged")
    if first[len(MAGIC) :] != _digest(sealed):
        raise RunError(f"{path} is damaged or cut short: its digest does not match its content")
    facts, _, body = sealed.partition(b"\n")
    return json.loads(facts), body


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _cause(error: OSError) -> str:
    return "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else str(error.strerror or error)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # elsewhere a folder cannot be opened
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def pack_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays by name as the bytes of an npz archive."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack_arrays(payload: bytes) -> dict[str, np.ndarray]:
    """What `pack_arrays` packed."""
    with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
