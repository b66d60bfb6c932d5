"""Images with labels for the paper's second experiment: small digits that come with chefs, MNIST and Fashion-MNIST."""

from __future__ import annotations

import gzip
import io
import os
import struct
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

NAMES = ("digits", "mnist123", "mnist", "fashion")
N_TEST_DIGITS = 500
HOSTS = {
    "mnist": "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "fashion": "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
}
FILES = {  # training images and labels, test images and labels
    "train-images-idx3-ubyte.gz": {
        "mnist": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "fashion": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    },
    "train-labels-idx1-ubyte.gz": {
        "mnist": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "fashion": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    },
    "t10k-images-idx3-ubyte.gz": {
        "mnist": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "fashion": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    },
    "t10k-labels-idx1-ubyte.gz": {
        "mnist": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        "fashion": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
}


class Images(NamedTuple):
    """Images (images, channels, side, side) and their labels 0, 1, …, to train on and to test on.

    Pixels are whole numbers up to 255, or floats as a network is to see them.
    """

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def load(name: str) -> Images:
    """Images by name.

    `digits`, 8 × 8, comes with chefs. `mnist`, `mnist123` (its digits 1, 2 and 3, the paper's) and `fashion`, 28 × 28,
    are read from the folder that the environment variable CHEFS_DATA names, `mnist.npz` or the four idx files, or
    are downloaded once and kept in the user's cache.

    >>> images = load("digits")
    >>> images.train_x.shape, images.test_x.shape, int(images.train_y.max())
    ((1297, 1, 8, 8), (500, 1, 8, 8), 9)
    """
    if name not in NAMES:
        raise ValueError(f"name must be one of {', '.join(NAMES)}; found {name!r}")
    if name == "digits":
        return _digits()
    images = _read("mnist" if name == "mnist123" else name)
    return only(images, (1, 2, 3)) if name == "mnist123" else images


def only(images: Images, labels: tuple[int, ...]) -> Images:
    """The images with these labels, which become 0, 1, … in this order."""
    new = np.full(256, -1)
    new[list(labels)] = range(len(labels))
    train, test = np.isin(images.train_y, labels), np.isin(images.test_y, labels)
    return Images(images.train_x[train], new[images.train_y[train]], images.test_x[test], new[images.test_y[test]])


def scaled(images: Images) -> Images:
    """Pixels as float32, whole numbers divided by 255; labels as int64."""
    x = map(scaled_pixels, images[::2])
    return Images(next(x), images.train_y.astype(np.int64), next(x), images.test_y.astype(np.int64))


def scaled_pixels(x: np.ndarray) -> np.ndarray:
    """Pixels as float32, whole numbers divided by 255."""
    return (x / np.float32(255) if x.dtype.kind in "iu" else x).astype(np.float32)


def checked_images(images: Any) -> Images:
    """`images`, where they are what networks can be trained on; without channels they are given one."""
    try:
        train_x, train_y, test_x, test_y = (np.asarray(part) for part in images)
    except (TypeError, ValueError):
        raise TypeError(
            "data must be four arrays, (train_x, train_y, test_x, test_y), as chefs.images.load gives them"
        ) from None
    train_x, test_x = (x[:, None] if x.ndim == 3 else x for x in (train_x, test_x))
    for part, x, y in (("train", train_x, train_y), ("test", test_x, test_y)):
        if x.ndim != 4 or x.shape[2] != x.shape[3] or 0 in x.shape or x.dtype.kind not in "iuf":
            raise ValueError(
                f"{part}_x must hold square images as (images, channels, side, side); its shape is {x.shape}"
            )
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            raise ValueError(f"{part}_x has pixels that are not finite")
        if y.shape != (len(x),) or y.dtype.kind not in "iu" or y.min() < 0:
            raise ValueError(f"{part}_y must hold one whole number from 0 for each of the {len(x)} images of {part}_x")
    if train_x.shape[1:] != test_x.shape[1:]:
        raise ValueError(
            f"train_x and test_x must hold images of one size; found {train_x.shape[1:]} and {test_x.shape[1:]}"
        )
    return Images(train_x, train_y, test_x, test_y)


def _digits() -> Images:
    packed = resources.files("chefs").joinpath("data", "digits.npz").read_bytes()
    with np.load(io.BytesIO(packed), allow_pickle=False) as archive:
        x, y = archive["images"], archive["labels"]
    order = np.random.default_rng(0).permutation(len(x))
    x = np.round(x[order, None] * (255 / 16)).astype(np.uint8)  # the file counts dots, 0 to 16
    return Images(x[N_TEST_DIGITS:], y[order][N_TEST_DIGITS:], x[:N_TEST_DIGITS], y[order][:N_TEST_DIGITS])


def _read(name: str) -> Images:
    own = Path(os.environ.get("CHEFS_DATA", "")).expanduser() / f"{name}.npz"
    if os.environ.get("CHEFS_DATA") and own.is_file():
        return _from_npz(own)
    from chefs.datasets import fetched

    parts = []
    for file, checksums in FILES.items():
        content = fetched(HOSTS[name] + file, checksums[name], f"{name}-{file}")
        parts.append(from_idx(gzip.decompress(content)))
    return Images(parts[0][:, None], parts[1], parts[2][:, None], parts[3])


def _from_npz(path: Path) -> Images:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            parts = [archive[part] for part in ("x_train", "y_train", "x_test", "y_test")]
    except (KeyError, ValueError, OSError, EOFError, BadZipFile):
        raise ValueError(
            f"{path} must be a NumPy archive with x_train, y_train, x_test and y_test: replace it or take it away"
        ) from None
    return Images(parts[0][:, None], parts[1], parts[2][:, None], parts[3])


def from_idx(content: bytes) -> np.ndarray:
    r"""The array of bytes in an idx file.

    >>> from_idx(b"\0\0\x08\x02" + bytes([0, 0, 0, 1, 0, 0, 0, 3]) + bytes([7, 8, 9]))
    array([[7, 8, 9]], dtype=uint8)
    """
    zeros, kind, n_axes = struct.unpack_from(">HBB", content)
    if zeros or kind != 8:
        raise ValueError("this is not an idx file of unsigned bytes")
    sizes = struct.unpack_from(f">{n_axes}I", content, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(sizes)
