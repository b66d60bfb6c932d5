"""Files that are written once, and never over others."""

from __future__ import annotations

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
