"""The nine data sets: their halves, their scaling, the laws of the toys, and downloads that are checked."""

import errno
import hashlib
import http.server
import math
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import chefs
from chefs import datasets
from chefs.datasets import Table, fetched, load
from chefs.metrics import hellinger
from tests.helpers import refused
from tests.stats import check, check_caught

SHAPES = {
    "ring": (2000, 2),
    "moons": (2000, 2),
    "pinwheel": (2000, 2),
    "geyser": (136, 2),
    "iris": (75, 4),
    "yeast": (742, 8),
    "abalone": (2000, 9),
    "cloud": (512, 10),
    "wine": (2000, 12),
}
TOYS, BUNDLED = ("ring", "moons", "pinwheel"), ("geyser", "iris", "yeast", "abalone", "wine")
HAVE_CLOUD = (Path(os.environ.get("CHEFS_DATA", "none")) / "cloud.csv").is_file()
EACH = [*TOYS, *BUNDLED]
EACH += [
    pytest.param("cloud", marks=pytest.mark.skipif(not HAVE_CLOUD, reason="CHEFS_DATA names no folder with Cloud"))
]


def rows_of(table):
    return [tuple(row) for row in (*table.train, *table.test)]


def test_list():
    assert list(datasets.list()) == list(SHAPES)


@pytest.mark.parametrize("name", EACH)
class TestEach:
    def test_halves(self, name):
        table = load(name, seed=1)
        assert (table.name, table.train.shape, table.test.shape) == (name, SHAPES[name], SHAPES[name])
        assert len(table.names) == len(set(table.names)) == SHAPES[name][1]
        assert np.isfinite(table.train).all() and np.isfinite(table.test).all()
        assert table.source
        assert set(table.traps) < set(table.names)

    def test_a_seed_is_a_split(self, name):
        first, again, other = load(name, 1), load(name, 1), load(name, 2)
        np.testing.assert_array_equal(first.train, again.train)
        np.testing.assert_array_equal(first.test, again.test)
        assert not np.array_equal(first.train, other.train)
        assert not np.array_equal(first.train, first.test)

    def test_scaling_is_that_of_the_training_half(self, name):
        table = load(name, seed=1)
        train, test = table.standardised()
        raw = (table.test - table.train.mean(axis=0)) / table.train.std(axis=0)
        np.testing.assert_allclose(test, np.clip(raw, -8, 8))
        np.testing.assert_allclose(table.to_unit(table.test), 1 / (1 + np.exp(-test)))
        assert np.abs(train).max() <= 8
        # Where nothing is clipped, the training half has mean 0 and variance 1 exactly.
        whole = np.abs(train).max(axis=0) < 8
        np.testing.assert_allclose(train[:, whole].mean(axis=0), 0, atol=1e-9)
        np.testing.assert_allclose(train[:, whole].std(axis=0), 1)


@pytest.mark.parametrize("name", BUNDLED)
def test_halves_are_disjoint_rows_of_the_table(name):
    whole = [tuple(row) for row in datasets._read(datasets._bundled(name))[1]]
    left = list(whole)
    for row in rows_of(load(name, seed=4)):
        left.remove(row)  # fails where a row is taken more often than the table has it
    assert len(left) == len(whole) - 2 * SHAPES[name][0]


def test_some_values_are_beyond_the_clip():
    """Yeast's nearly constant columns are: the clip is at work."""
    table = load("yeast", seed=1)
    train, _ = table.standardised()
    assert np.abs(train).max() == 8
    assert np.abs((table.train - table.mean) / table.sd).max() > 8


def test_known_facts():
    """Counts that anyone with the original files can check."""
    facts = {}
    for name in BUNDLED:
        names, rows = datasets._read(datasets._bundled(name))
        facts[name] = dict(zip(names, rows.T, strict=True))
    assert {name: len(next(iter(columns.values()))) for name, columns in facts.items()} == {
        "geyser": 272,
        "iris": 150,
        "yeast": 1484,
        "abalone": 4177,
        "wine": 4898,
    }
    assert np.bincount(facts["abalone"]["sex"].astype(int)).tolist() == [1528, 1307, 1342]  # M, F, I
    assert np.bincount(facts["wine"]["quality"].astype(int)).tolist() == [0, 0, 0, 20, 163, 1457, 2198, 880, 175, 5]
    assert np.count_nonzero(facts["yeast"]["erl"] == 0.5) == 1470
    assert np.count_nonzero(facts["yeast"]["pox"] == 0.0) == 1469
    assert facts["iris"]["petal_length"].mean() == pytest.approx(3.758)
    assert facts["geyser"]["waiting"].mean() == pytest.approx(70.8971, abs=1e-4)


def test_traps_and_repeated_rows():
    whole, safe = load("yeast", 3), load("yeast", 3, traps=False)
    assert whole.traps == ("erl", "pox") and safe.traps == ()
    assert safe.names == tuple(name for name in whole.names if name not in ("erl", "pox"))
    np.testing.assert_array_equal(safe.train, whole.without("erl", "pox").train)
    np.testing.assert_array_equal(safe.test, whole.without("erl", "pox").test)
    assert load("abalone").traps == ("sex",) and load("wine").traps == ("quality",)
    assert whole.without("erl").traps == ("pox",)


@pytest.mark.parametrize("traps", [True, False])
def test_no_row_twice(traps):
    wine = load("wine", 3, traps=traps)
    train = {tuple(row) for row in wine.train}
    repeated = np.mean([tuple(row) in train for row in wine.test])
    assert 0.14 < repeated < 0.20
    unique = load("wine", 3, traps=traps, unique=True)
    assert len(set(rows_of(unique))) == len(rows_of(unique)) == 2 * 1980
    assert set(rows_of(unique)) <= {tuple(row) for row in datasets._read(datasets._bundled("wine"))[1][:, : 11 + traps]}


def test_a_training_half_without_spread_is_refused():
    """One in many thousand splits has all the odd rows of a nearly constant column in its test half."""
    half = np.random.default_rng(0).normal(size=(10, 2))
    with refused("table", "b", "seed"):
        Table("table", half * (1, 0), half, ("a", "b"), (), "nowhere")


class TestToys:
    """The toys against their formulas, with negative controls: the same formulas with another constant."""

    N = 20_000

    def points(self, draw, seed=0):
        return draw(np.random.default_rng(seed), self.N)

    def test_ring(self):
        x, y = (self.points(datasets.ring) - 0.5).T
        radius, angle = np.hypot(x, y), np.arctan2(y, x)

        def p_values(sd=0.03):
            return {
                "radius": stats.kstest(radius, stats.norm(0.3, sd).cdf).pvalue,
                "angle": stats.kstest(angle, stats.uniform(-math.pi, 2 * math.pi).cdf).pvalue,
                "independent": stats.spearmanr(radius, np.abs(angle)).pvalue,
            }

        check(p_values())
        check_caught(p_values(sd=0.034))

    def test_moons(self):
        """Each coordinate is a mixture of two shifted arcsine-like laws, convolved with the noise: by quadrature."""
        points = (self.points(datasets.moons) - 0.5) / 0.25 + (0.5, 0.25)
        angle = (np.arange(2000) + 0.5) * math.pi / 2000
        centres = {
            "x": np.concatenate([np.cos(angle), 1 - np.cos(angle)]),
            "y": np.concatenate([np.sin(angle), 0.5 - np.sin(angle)]),
            "x + y": np.concatenate([np.cos(angle) + np.sin(angle), 1.5 - np.cos(angle) - np.sin(angle)]),
        }
        seen = {"x": points[:, 0], "y": points[:, 1], "x + y": points.sum(axis=1)}

        grid = np.linspace(-2, 3.5, 800)

        def p_values(sd=0.1):
            result = {}
            for name, values in seen.items():
                width = sd * (math.sqrt(2) if name == "x + y" else 1)
                cdf = np.mean(stats.norm.cdf((grid[:, None] - centres[name]) / width), axis=1)
                result[name] = stats.kstest(values, lambda at, cdf=cdf: np.interp(at, grid, cdf)).pvalue
            return result

        check(p_values())
        check_caught(p_values(sd=0.15))

    def test_pinwheel(self):
        """Against the formula in complex numbers, by its coordinates, radius and angle."""
        points = self.points(datasets.pinwheel)
        rng = np.random.default_rng(99)
        arm, (u, v) = rng.integers(0, 5, 5 * self.N), rng.standard_normal((2, 5 * self.N))

        def p_values(turn=1.0, bend=0.25, across=0.1):
            a, b = 1 + 0.3 * u, across * v
            there = (a + 1j * b) * np.exp(1j * turn * (2 * math.pi * arm / 5 + bend * np.exp(a)))
            here = (points @ (1, 1j) - (0.5 + 0.5j)) / 0.2
            parts = {"x": np.real, "y": np.imag, "radius": np.abs, "angle": np.angle}
            return {name: stats.ks_2samp(part(here), part(there)).pvalue for name, part in parts.items()}

        check(p_values())
        for wrong in ({"turn": -1.0}, {"bend": 0.3}, {"across": 0.2}):
            check_caught(p_values(**wrong))


BASELINES = {
    "ring": 0.035,
    "moons": 0.038,
    "pinwheel": 0.043,
    "geyser": 0.075,
    "iris": 0.175,
    "yeast": 0.302,
    "abalone": 0.096,
    "cloud": 0.154,
    "wine": 0.388,
}


@pytest.mark.parametrize("name", EACH)
def test_baselines(name):
    """Train against test, on u: means over seeds are within a tenth of those that chose the estimator."""
    tables = [load(name, seed) for seed in range(100 if name in ("geyser", "iris") else 20)]
    found = [hellinger(t.to_unit(t.train), t.to_unit(t.test), n_resplits=0).distance for t in tables]
    assert np.mean(found) == pytest.approx(BASELINES[name], rel=0.1)


BAD = {
    "unknown": (("rings",), {}, ("name", "rings", "ring, moons")),
    "images": (("mnist",), {}, ("name", "mnist", "chefs.images.load")),
    "no text": ((3,), {}, ("name", "3")),
    "negative": (("ring", -1), {}, ("seed", "-1")),
    "half": (("ring", 0.5), {}, ("seed", "0.5")),
    "true": (("ring", True), {}, ("seed", "True")),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    arguments, options, names = BAD[case]
    with refused(*names):
        load(*arguments, **options)


def test_bad_columns():
    iris = load("iris")
    with refused("iris", "colour"):
        iris.without("sepal_width", "colour")
    with refused("iris", "at least one"):
        iris.without(*iris.names)
    with refused("x", "4 columns", "(5,)"):
        iris.to_z(np.zeros(5))
    with refused("x", "4 columns", "(5, 3)"):
        iris.to_unit(np.zeros((5, 3)))


CONTENT = b"one,two\n1,2\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty cache of our own, and no folder with data."""
    monkeypatch.delenv("CHEFS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "chefs"


@pytest.fixture
def origin(tmp_path):
    """A file and its file:// address."""
    path = tmp_path / "origin.csv"
    path.write_bytes(CONTENT)
    return path


class TestFetched:
    def test_from_a_server_once(self, cache):
        asked = []

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                self.send_response(200 if self.path == "/table.csv" else 404)
                self.end_headers()
                self.wfile.write(CONTENT)

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
            threading.Thread(target=server.serve_forever).start()
            try:
                address = f"http://127.0.0.1:{server.server_port}"
                for _ in range(3):
                    assert fetched(f"{address}/table.csv", SHA256, "table.csv") == CONTENT
                with pytest.raises(ConnectionError, match=r"other\.csv .*404"):
                    fetched(f"{address}/missing", SHA256, "other.csv")
            finally:
                server.shutdown()
        assert asked == ["/table.csv", "/missing"]
        assert [path.name for path in cache.iterdir()] == ["table.csv"]
        assert (cache / "table.csv").read_bytes() == CONTENT

    def test_what_is_checked_and_kept_is_what_was_made_of_it(self, cache, origin):
        origin.write_bytes(CONTENT.upper())
        assert fetched(origin.as_uri(), SHA256, "table.csv", bytes.lower) == CONTENT
        assert (cache / "table.csv").read_bytes() == CONTENT

    def test_a_wrong_file_is_not_kept(self, cache, origin):
        origin.write_bytes(CONTENT + b"3,4\n")
        with refused("table.csv", "nothing was kept"):
            fetched(origin.as_uri(), SHA256, "table.csv")
        assert not cache.exists()

    def test_a_spoilt_cache_is_replaced(self, cache, origin):
        cache.mkdir(parents=True)
        (cache / "table.csv").write_bytes(CONTENT[:5])
        assert fetched(origin.as_uri(), SHA256, "table.csv") == CONTENT
        assert (cache / "table.csv").read_bytes() == CONTENT

    def test_a_write_that_fails_leaves_nothing(self, cache, origin, monkeypatch):
        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="XDG_CACHE_HOME"):
            fetched(origin.as_uri(), SHA256, "table.csv")
        assert list(cache.iterdir()) == []

    def test_own_folder_comes_first(self, cache, origin, monkeypatch, tmp_path):
        own = tmp_path / "own"
        own.mkdir()
        monkeypatch.setenv("CHEFS_DATA", str(own))
        assert fetched(origin.as_uri(), SHA256, "table.csv") == CONTENT  # not there: downloaded
        (own / "table.csv").write_bytes(CONTENT + b"3,4\n")
        with refused("table.csv", "CHEFS_DATA"):
            fetched(origin.as_uri(), SHA256, "table.csv")
        (own / "table.csv").write_bytes(CONTENT)
        (cache / "table.csv").unlink()
        origin.unlink()
        assert fetched(origin.as_uri(), SHA256, "table.csv") == CONTENT

    def test_a_folder_that_does_not_exist(self, cache, monkeypatch, tmp_path):
        monkeypatch.setenv("CHEFS_DATA", str(tmp_path / "nowhere"))
        with refused("CHEFS_DATA", "nowhere", error=FileNotFoundError):
            load("cloud")

    def test_home_is_the_last_resort(self, cache, origin, monkeypatch, tmp_path):
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setattr(Path, "home", lambda: tmp_path)
        fetched(origin.as_uri(), SHA256, "table.csv")
        assert (tmp_path / ".cache" / "chefs" / "table.csv").read_bytes() == CONTENT


class TestCloud:
    """Cloud from a file laid out like the repository's: prose, then two data bases of 1024 lines, four decimals."""

    @pytest.fixture
    def rows(self):
        return np.round(np.random.default_rng(0).normal(100, 30, size=(1024, 10)), 4)

    @pytest.fixture
    def raw(self, rows):
        lines = [
            "Cloud data, 1989",
            "10 attributes of 1024 images:",
            "1. visible mean",
            "",
            "DB #1:",
            *("".join(f"{value:10.4f}" for value in row) for row in rows),
            "",
            "DB #2:",
            *("".join(f"{value:10.4f}" for value in row) for row in rows + 500),
        ]
        return "\r\n".join(lines).encode("latin-1")

    def test_first_data_base(self, rows, raw):
        names, found = datasets._read(datasets.cloud_table(raw).decode())
        np.testing.assert_array_equal(found, rows)
        assert names[0] == "visible_mean" and len(names) == 10

    def test_a_table_is_left_as_it_is(self, raw):
        table = datasets.cloud_table(raw)
        assert datasets.cloud_table(table) == table

    def test_download(self, cache, rows, raw, origin, monkeypatch):
        origin.write_bytes(raw)
        monkeypatch.setattr(datasets, "CLOUD_URL", origin.as_uri())
        with refused("cloud.csv", "nothing was kept"):  # not the real one
            load("cloud")
        monkeypatch.setattr(datasets, "CLOUD_SHA256", hashlib.sha256(datasets.cloud_table(raw)).hexdigest())
        table = load("cloud", seed=2)
        origin.unlink()
        np.testing.assert_array_equal(load("cloud", seed=2).test, table.test)
        assert sorted(rows_of(table)) == sorted(map(tuple, rows))

    def test_what_to_do_without_it(self, cache, origin, monkeypatch):
        origin.unlink()
        monkeypatch.setattr(datasets, "CLOUD_URL", origin.as_uri())
        with pytest.raises(ConnectionError) as caught:
            load("cloud")
        message = str(caught.value)
        assert "\n" not in message
        assert all(word in message for word in ("cloud.csv", "online", origin.as_uri(), "CHEFS_DATA")), message
        assert not cache.exists()


def test_data_are_in_the_package_with_their_attribution():
    folder = Path(chefs.__file__).parent / "data"
    names = {path.name for path in folder.iterdir()}
    text = (folder / "ATTRIBUTION.md").read_text(encoding="utf-8")
    assert {f"{name}.csv.gz" for name in BUNDLED} <= names
    assert [name for name in names - {"ATTRIBUTION.md"} if f"`{name}`" not in text] == []
    assert "CC BY 4.0" in text
