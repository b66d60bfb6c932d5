"""chefs data: every name that can be loaded, and whether what it needs is here."""

import gzip
import hashlib
import json

import pytest

from chefs import datasets, images


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A folder of the user's data and a cache, both empty."""
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv("CHEFS_DATA", str(own))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return own, tmp_path / "cache" / "chefs"


def listed(run):
    code, out, err = run("data", "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    return {row["name"]: row for row in json.loads(out)["datasets"]}


def here(run):
    return {name for name, row in listed(run).items() if row["here"]}


def test_every_data_set_is_listed_with_its_size_and_source(run, places):
    rows = listed(run)
    assert list(rows) == [*datasets.list(), *images.NAMES]
    for name in datasets.list():
        if name == "cloud":
            assert (rows[name]["size"], rows[name]["for"]) == ([1024, 10], "fit")
            continue
        table = datasets.load(name)
        assert rows[name]["size"] == [len(table.train) + len(table.test), len(table.names)]
        assert rows[name]["source"] == table.source
    digits = images.load("digits")
    assert rows["digits"]["size"] == [len(digits.train_x) + len(digits.test_x), *digits.train_x.shape[2:]]
    code, out, err = run("data")
    assert (code, err) == (0, "")
    assert all(f"│ {name} " in out for name in rows)
    assert sum(" no " in line for line in out.splitlines()) == 4


def test_what_is_here_is_what_loads_without_a_network(run, places, monkeypatch):
    own, cache = places
    assert here(run) == {*datasets.list(), "digits"} - {"cloud"}
    text = datasets.cloud_table(b"\n".join(b"%d " % row * 10 for row in range(1024)))
    monkeypatch.setattr(datasets, "CLOUD_SHA256", hashlib.sha256(text).hexdigest())
    monkeypatch.setattr(datasets, "_downloaded", lambda *_: text.replace(b",", b" "))
    datasets._cloud()  # downloads, and keeps
    assert "cloud" in here(run)
    cache.joinpath("cloud.csv").rename(own / "cloud.csv")
    assert "cloud" in here(run)
    own.joinpath("mnist.npz").write_bytes(b"")
    assert {"mnist", "mnist123"} <= here(run) and "fashion" not in here(run)
    for file in images.FILES:
        assert "fashion" not in here(run)
        (cache / f"fashion-{file}").write_bytes(gzip.compress(b""))
    assert "fashion" in here(run)


def test_a_folder_that_does_not_exist(run, tmp_path, monkeypatch):
    monkeypatch.setenv("CHEFS_DATA", str(tmp_path / "nowhere"))
    code, out, err = run("data")
    assert (code, out, err.count("\n")) == (2, "", 1) and "CHEFS_DATA names" in err
