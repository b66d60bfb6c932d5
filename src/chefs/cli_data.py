"""The command `chefs data`: what can be loaded by name, from where, and whether it is on this machine."""

from __future__ import annotations

from typing import Any

from chefs.cli_shared import Json, print_json

MNIST = "MNIST, Y. LeCun, C. Cortes and C. Burges; downloaded once"
IMAGES = {
    "digits": ((1797, 8, 8), "Optical digits, E. Alpaydin and C. Kaynak, 1998, as in scikit-learn"),
    "mnist123": ((22_008, 28, 28), f"the digits 1, 2 and 3 of {MNIST}"),
    "mnist": ((70_000, 28, 28), MNIST),
    "fashion": ((70_000, 28, 28), "Fashion-MNIST, H. Xiao and others, 2017; downloaded once"),
}


def data(json: Json = False) -> None:
    """List the data sets that can be loaded by name: tables for chefs fit, images for chefs search."""
    rows = [*_tables(), *_images()]
    if json:
        return print_json({"datasets": rows})
    from rich.console import Console
    from rich.table import Table

    view = Table("name", "for", "size", "here", "from")
    for row in rows:
        size = " × ".join(map(str, row["size"]))
        view.add_row(row["name"], row["for"], size, "yes" if row["here"] else "no", row["source"])
    Console(highlight=False).print(view)
    print("What is not here is downloaded when it is first used, or read from the folder that CHEFS_DATA names.")


def _tables() -> list[dict[str, Any]]:
    from chefs import datasets

    rows = []
    for name in datasets.list():
        here = name != "cloud" or _is_kept("cloud.csv")
        size, source = (datasets.CLOUD_ROWS, 10), datasets.TABLES["cloud"].source
        if here:
            table = datasets.load(name)
            size, source = (len(table.train) + len(table.test), len(table.names)), table.source
        rows.append({"name": name, "for": "fit", "size": size, "here": here, "source": source})
    return rows


def _images() -> list[dict[str, Any]]:
    return [
        {"name": name, "for": "search", "size": size, "here": _has_images(name), "source": source}
        for name, (size, source) in IMAGES.items()
    ]


def _has_images(name: str) -> bool:
    from chefs.images import FILES

    stem = "mnist" if name == "mnist123" else name
    return name == "digits" or _is_kept(f"{stem}.npz") or all(_is_kept(f"{stem}-{file}") for file in FILES)


def _is_kept(name: str) -> bool:
    """Whether a file that chefs does not carry is in the folder of the user's data, or in the cache."""
    from chefs.datasets import cache_folder, data_folder

    return any(folder is not None and (folder / name).is_file() for folder in (data_folder(), cache_folder()))
