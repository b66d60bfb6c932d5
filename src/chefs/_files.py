"""Files that are written once, and never over others, or whole in the place of an older one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def check_new(*paths: Path) -> None:
    """Raise unless every path is free to be written: its folder is there, and no file of that name is in it."""
    for path in paths:
        if not path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {path.parent}: create it first or choose another one")
        if path.exists() or path.is_symlink():
            raise FileExistsError(f"{path} is already there and is not replaced: move it or choose another name")


def write_new(path: Path, content: bytes) -> None:
    """Write a file that must not be there yet."""
    check_new(path)
    with path.open("xb") as file:
        file.write(content)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all; it takes the place of an older one."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False, suffix=".part") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)
