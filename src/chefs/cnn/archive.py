"""Archive: what the networks of a run said about the test images, kept for the ensemble."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chefs.cnn.plan import Plan
from chefs.storage import RunError


class Archive:
    """Label probabilities by plan and evidence, in memory and, where there is a folder, one small file each.

    Args:
        folder: Where to keep them; None for in memory alone.
        images: The test images: what was said about others is not found.
    """

    def __init__(self, folder: str | Path | None = None, images: np.ndarray | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._about = b"" if images is None else _digest(images)
        self._kept: dict[str, NDArray[np.float16]] = {}

    def keep(self, plan: Plan, evidence: float, probabilities: np.ndarray) -> None:
        """Remember; what is already known is left as it is."""
        key = self._key(plan, evidence)
        if key in self._kept:
            return
        self._kept[key] = probabilities.astype(np.float16)
        if self.folder is not None and not self._path(key).exists():
            self._write(self._path(key), self._kept[key])

    def find(self, plan: Plan, evidence: float) -> NDArray[np.float32] | None:
        """The probabilities, (test images, classes), or None where they were not kept."""
        key = self._key(plan, evidence)
        if key not in self._kept and self.folder is not None and self._path(key).exists():
            self._kept[key] = np.load(self._path(key), allow_pickle=False)
        found = self._kept.get(key)
        return None if found is None else found.astype(np.float32)

    def _key(self, plan: Plan, evidence: float) -> str:
        return hashlib.sha256(self._about + repr((tuple(plan), float(evidence))).encode()).hexdigest()[:32]

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{key}.npy"

    def _write(self, path: Path, values: np.ndarray) -> None:
        aside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(aside, "wb") as file:
                np.save(file, values)
            os.replace(aside, path)  # whole or not there, whoever else writes it
        except OSError as error:
            raise RunError(
                f"cannot write {path}: {error.strerror or error}; what was written before is whole"
            ) from error


def _digest(images: np.ndarray) -> bytes:
    return hashlib.sha256(f"{images.shape} {images.dtype.str}".encode() + images.tobytes()).digest()
