"""The nine data sets of the paper's first experiment: three toy densities and six tables, as train and test halves."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import tempfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

FloatArray = NDArray[np.float64]

HALF = 2000  # points of a half, at most
CLIP = 8.0  # standard deviations
TIMEOUT = 60.0  # seconds without a byte after which a download has failed


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A training and a test half on their original scale, with the scaling that the training half gives.

    z = (x − mean)/sd, clipped to ±8, and u = σ(z): a belief network sees u, so that its observed pre-activations are z,
    and distances between samples are measured on u. `traps` names columns that are discrete or nearly constant:
    densities blow up on such atoms, so report results without them too.

    >>> ring = load("ring", seed=1)
    >>> ring.train.shape, ring.test.shape, ring.names
    ((2000, 2), (2000, 2), ('x', 'y'))
    >>> train, test = ring.standardised()
    >>> bool(np.allclose(train.mean(axis=0), 0)), bool(np.allclose(train.std(axis=0), 1))
    (True, True)
    """

    name: str
    train: FloatArray = field(repr=False)
    test: FloatArray = field(repr=False)
    names: tuple[str, ...]
    traps: tuple[str, ...]
    source: str

    def __post_init__(self) -> None:
        flat = [name for name, width in zip(self.names, np.ptp(self.train, axis=0), strict=True) if width == 0]
        if flat:
            raise ValueError(
                f"{self.name} has the same {flat[0]} in all rows of this training half, so it has no scale: "
                "take another seed, or leave the column out with traps=False"
            )

    @property
    def mean(self) -> FloatArray:
        """Mean of each column of the training half."""
        return self.train.mean(axis=0)

    @property
    def sd(self) -> FloatArray:
        """Standard deviation of each column of the training half."""
        return self.train.std(axis=0)

    def to_z(self, x: ArrayLike) -> FloatArray:
        """Points on the original scale as z: standard deviations off the mean of the training half, clipped to ±8."""
        points = np.asarray(x, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != len(self.names):
            raise ValueError(
                f"x must have a row a point and {len(self.names)} columns ({', '.join(self.names)}); "
                f"its shape is {points.shape}"
            )
        return np.clip((points - self.mean) / self.sd, -CLIP, CLIP)

    def to_unit(self, x: ArrayLike) -> FloatArray:
        """Points on the original scale as u = σ(z), between 0 and 1.

        >>> geyser = load("geyser")
        >>> bool(np.allclose(geyser.to_unit([geyser.mean]), 0.5))
        True
        """
        return expit(self.to_z(x))

    def standardised(self) -> tuple[FloatArray, FloatArray]:
        """The training and the test half as z."""
        return self.to_z(self.train), self.to_z(self.test)

    def without(self, *columns: str) -> Table:
        """The same halves without some columns.

        >>> load("iris").without("sepal_width").names
        ('sepal_length', 'petal_length', 'petal_width')
        """
        unknown = [name for name in columns if name not in self.names]
        keep = [j for j, name in enumerate(self.names) if name not in columns]
        if unknown:
            raise ValueError(f"{self.name} has no column {unknown[0]!r}; its columns are {', '.join(self.names)}")
        if not keep:
            raise ValueError(f"without the columns {', '.join(columns)}, {self.name} has none: leave at least one")
        return replace(
            self,
            train=self.train[:, keep],
            test=self.test[:, keep],
            names=tuple(self.names[j] for j in keep),
            traps=tuple(name for name in self.traps if name not in columns),
        )


def ring(rng: np.random.Generator, n: int) -> FloatArray:
    """A ring around (½, ½): radius N(0.3, 0.03²), angle uniform.

    >>> ring(np.random.default_rng(0), 5).shape
    (5, 2)
    """
    angle = rng.uniform(0.0, 2 * np.pi, n)
    radius = rng.normal(0.3, 0.03, n)
    return 0.5 + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def moons(rng: np.random.Generator, n: int) -> FloatArray:
    """Two half circles that reach into one another, with noise N(0, 0.1²), at a quarter of their size.

    >>> moons(np.random.default_rng(0), 5).shape
    (5, 2)
    """
    lower = rng.integers(0, 2, n) == 1
    angle = rng.uniform(0.0, np.pi, n)
    x = np.where(lower, 1 - np.cos(angle), np.cos(angle))
    y = np.where(lower, 0.5 - np.sin(angle), np.sin(angle))
    points = np.stack([x, y], axis=1) + rng.normal(0.0, 0.1, (n, 2))
    return 0.5 + 0.25 * (points - (0.5, 0.25))


def pinwheel(rng: np.random.Generator, n: int) -> FloatArray:
    """Five arms, l = 0 … 4: (a, b) = (1 + 0.3 z₁, 0.1 z₂) rotated by 2πl/5 + ¼ exp(a), at a fifth of its size.

    >>> pinwheel(np.random.default_rng(0), 5).shape
    (5, 2)
    """
    arm = rng.integers(0, 5, n)
    along, across = 1 + 0.3 * rng.standard_normal(n), 0.1 * rng.standard_normal(n)
    angle = 2 * np.pi * arm / 5 + 0.25 * np.exp(along)
    x = along * np.cos(angle) - across * np.sin(angle)
    y = along * np.sin(angle) + across * np.cos(angle)
    return 0.5 + 0.2 * np.stack([x, y], axis=1)


class _Origin(NamedTuple):
    source: str
    traps: tuple[str, ...] = ()


UCI = "UCI Machine Learning Repository, CC BY 4.0"
TOYS = {"ring": ring, "moons": moons, "pinwheel": pinwheel}
TABLES = {
    "geyser": _Origin("Old Faithful; A. Azzalini and A. Bowman, Applied Statistics 39, 1990"),
    "iris": _Origin(f"Iris, R. A. Fisher, Annals of Eugenics 7, 1936; {UCI}, and scikit-learn"),
    "yeast": _Origin(f"Yeast, K. Nakai and P. Horton, 1996; {UCI}", ("erl", "pox")),
    "abalone": _Origin(f"Abalone, W. Nash and others, donated by S. Waugh, 1995; {UCI}", ("sex",)),
    "cloud": _Origin(f"Cloud, donated by P. Collard, 1989; {UCI}"),
    "wine": _Origin(f"Wine Quality (white), P. Cortez and others, 2009; {UCI}", ("quality",)),
}


def list() -> tuple[str, ...]:
    """Names that `load` takes, in the order of the paper's table.

    >>> list()
    ('ring', 'moons', 'pinwheel', 'geyser', 'iris', 'yeast', 'abalone', 'cloud', 'wine')
    """
    return (*TOYS, *TABLES)


def load(name: str, seed: int = 0, *, traps: bool = True, unique: bool = False) -> Table:
    """One of the nine data sets as a training and a test half, of at most 2000 points each.

    The toys are drawn afresh for each seed. The other tables are cut into random disjoint halves; the same seed gives
    the same rows with and without traps. All come with chefs but Cloud, which is read from the folder that the
    environment variable CHEFS_DATA names or, failing that, downloaded once and kept in the user's cache.

    Args:
        name: One of `chefs.datasets.list()`.
        seed: Which draw or split; a whole number, not negative.
        traps: Whether to keep the columns that are discrete or nearly constant (`Table.traps`).
        unique: Whether to keep only one of equal rows before the split, so that no test row repeats a training row
            (one in six does in Wine).

    >>> wine = load("wine", seed=3)
    >>> wine.train.shape, wine.traps, load("wine", seed=3, traps=False).train.shape
    ((2000, 12), ('quality',), (2000, 11))
    """
    if not isinstance(name, str) or name not in list():
        raise ValueError(f"name must be one of {', '.join(list())} (images: chefs.images.load); found {name!r}")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be a whole number, 0 or larger; found {seed!r}")
    rng = np.random.default_rng(seed)
    if name in TOYS:
        return Table(name, TOYS[name](rng, HALF), TOYS[name](rng, HALF), ("x", "y"), (), "drawn from its formula")
    source, atoms = TABLES[name]
    names, rows = whole(name)
    keep = [j for j, column in enumerate(names) if traps or column not in atoms]
    rows = np.unique(rows[:, keep], axis=0) if unique else rows[:, keep]
    rows, half = rng.permutation(rows), min(HALF, len(rows) // 2)
    kept = tuple(names[j] for j in keep)
    return Table(name, rows[:half], rows[half : 2 * half], kept, atoms if traps else (), source)


def whole(name: str) -> tuple[tuple[str, ...], FloatArray]:
    """Names of the columns, and all rows of a table before any split; the toys have none.

    >>> names, rows = whole("wine")
    >>> rows.shape, len(np.unique(rows, axis=0))
    ((4898, 12), 3961)
    """
    if name not in TABLES:
        raise ValueError(f"name must be one of {', '.join(TABLES)}; found {name!r}")
    return _read(_cloud() if name == "cloud" else _bundled(name))


def _read(text: str) -> tuple[tuple[str, ...], FloatArray]:
    head, *lines = text.splitlines()
    return tuple(head.split(",")), np.loadtxt(lines, delimiter=",", ndmin=2)


def _bundled(name: str) -> str:
    packed = resources.files("chefs").joinpath("data", f"{name}.csv.gz").read_bytes()
    return gzip.decompress(packed).decode()


CLOUD_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/undocumented/taylor/cloud.data"
CLOUD_SHA256 = (
    "76a7f14778b15faa639b0392b3156d8a143c298241e051ed0593daf000f06178"  # of the table that `cloud_table` makes
)
CLOUD_ROWS = 1024
CLOUD_NAMES = (  # second-hand: the repository does not name the columns in the file
    "visible_mean,visible_max,visible_min,visible_mean_distribution,visible_contrast,visible_entropy,"
    "visible_second_angular_momentum,IR_mean,IR_max,IR_min"
)


def _cloud() -> str:
    return fetched(CLOUD_URL, CLOUD_SHA256, "cloud.csv", cloud_table).decode()


def cloud_table(content: bytes) -> bytes:
    r"""Cloud as a table: the first 1024 lines of ten numbers, whatever stands around or between them.

    The repository's file has prose, then two data bases of 1024 lines each; the first is the one in use.

    >>> cloud_table(b"DB #1\n 1.0 2.50 3 4 5 6 7 8 9 10").decode().splitlines()[1]
    '1.0,2.5,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0'
    """
    lines = [CLOUD_NAMES]
    for line in content.decode("latin-1").replace(",", " ").splitlines():
        try:
            numbers = [float(word) for word in line.split()]
        except ValueError:
            continue
        if len(numbers) == 10 and len(lines) <= CLOUD_ROWS:
            lines.append(",".join(map(repr, numbers)))
    return ("\n".join(lines) + "\n").encode()


def fetched(url: str, sha256: str, name: str, convert: Callable[[bytes], bytes] = bytes) -> bytes:
    """The content of a file that chefs may not carry, checked against its checksum.

    It is read from the folder that the environment variable CHEFS_DATA names, if a file of this name is there; else
    from the cache (`$XDG_CACHE_HOME/chefs`, or `~/.cache/chefs`); else downloaded and put there.

    Args:
        url: Where to download it.
        sha256: The checksum, in hexadecimal digits, of what `convert` returns.
        name: What the file is called in the folder and in the cache.
        convert: What to make of the bytes that were found before they are checked and kept.

    Raises:
        FileNotFoundError: CHEFS_DATA names a folder that does not exist.
        ConnectionError: The file is not here and cannot be downloaded.
        ValueError: What was found is not what was expected; nothing is kept.
    """

    def expected(content: bytes) -> bool:
        return hashlib.sha256(content).hexdigest() == sha256

    own = data_folder()
    if own is not None and (own / name).is_file():
        content = convert((own / name).read_bytes())
        if not expected(content):
            raise ValueError(
                f"{own / name} is not the {name} that chefs knows: replace it, or take it out of CHEFS_DATA"
            )
        return content
    kept = cache_folder() / name
    if kept.is_file() and expected(content := kept.read_bytes()):
        return content
    content = convert(_downloaded(url, name))
    if not expected(content):
        raise ValueError(f"{url} sent something else than the {name} that chefs knows, and nothing was kept: try later")
    _keep(kept, content)
    return content


def data_folder() -> Path | None:
    """The folder with data that the environment variable CHEFS_DATA names, if it is set."""
    named = os.environ.get("CHEFS_DATA")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"CHEFS_DATA names {folder}, which is not a folder: correct or unset it")
    return folder


def cache_folder() -> Path:
    """The folder in which files that were downloaded are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "chefs"


def _downloaded(url: str, name: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            return answer.read()
    except (OSError, http.client.HTTPException) as problem:
        raise ConnectionError(
            f"{name} is not on this machine and cannot be downloaded ({problem}): go online, or save {url} as {name} "
            "in a folder and set the environment variable CHEFS_DATA to that folder"
        ) from None


def _keep(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, whoever else is writing it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as aside:
            (Path(aside) / path.name).write_bytes(content)
            os.replace(Path(aside) / path.name, path)
    except OSError as problem:
        raise OSError(
            f"the cache {path.parent} cannot be written ({problem}): set XDG_CACHE_HOME to a folder that can be"
        ) from None
