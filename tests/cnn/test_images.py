import gzip
import hashlib
import struct

import numpy as np
import pytest

from chefs import images
from chefs.images import Images, checked_images, from_idx, load, only, scaled
from tests.helpers import refused


def idx(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def small(rng, n):
    return rng.integers(0, 256, (n, 28, 28), np.uint8), rng.integers(0, 10, n).astype(np.uint8)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Small idx files in place of the real ones, with checksums of their own, in a folder of the user."""
    rng = np.random.default_rng(0)
    parts = [*small(rng, 60), *small(rng, 20)]
    folder, sums = tmp_path / "data", {}
    folder.mkdir()
    for name, part in zip(images.FILES, parts, strict=True):
        content = gzip.compress(idx(part), mtime=0)
        (folder / f"fashion-{name}").write_bytes(content)
        sums[name] = {"fashion": hashlib.sha256(content).hexdigest(), "mnist": "0" * 64}
    monkeypatch.setattr(images, "FILES", sums)
    monkeypatch.setenv("CHEFS_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder, parts


def test_digits_come_with_chefs_and_are_always_the_same():
    data = load("digits")
    assert data.train_x.shape == (1297, 1, 8, 8) and data.test_x.shape == (500, 1, 8, 8)
    assert set(data.train_y.tolist()) == set(data.test_y.tolist()) == set(range(10))
    assert data.train_x.max() == 255
    assert hashlib.sha256(data.test_x.tobytes() + data.test_y.tobytes()).hexdigest()[:8] == "00337778"


def test_idx_files_in_the_users_folder_are_read(files):
    _, parts = files
    data = load("fashion")
    for found, part in zip(data, parts, strict=True):
        np.testing.assert_array_equal(found.squeeze(), part)
    assert data.train_x.shape == (60, 1, 28, 28)


def test_a_file_that_is_not_what_it_should_be_is_refused(files):
    folder, _ = files
    name = next(iter(images.FILES))
    (folder / f"fashion-{name}").write_bytes(b"something else")
    with refused("fashion-train-images", "CHEFS_DATA"):
        load("fashion")


def test_images_that_are_nowhere_are_asked_for_in_one_sentence(files, monkeypatch):
    def offline(*arguments, **options):
        raise OSError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    with pytest.raises(ConnectionError, match="CHEFS_DATA") as caught:
        load("mnist")
    assert "\n" not in str(caught.value)


def test_an_archive_in_the_users_folder_is_read_and_three_digits_chosen(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    (x, y), (u, v) = small(rng, 80), small(rng, 30)
    np.savez(tmp_path / "mnist.npz", x_train=x, y_train=y, x_test=u, y_test=v)
    monkeypatch.setenv("CHEFS_DATA", str(tmp_path))
    whole, three = load("mnist"), load("mnist123")
    np.testing.assert_array_equal(whole.train_x[:, 0], x)
    np.testing.assert_array_equal(whole.test_y, v)
    kept = np.isin(y, (1, 2, 3))
    np.testing.assert_array_equal(three.train_x[:, 0], x[kept])
    np.testing.assert_array_equal(three.train_y, y[kept].astype(int) - 1)
    assert set(three.test_y.tolist()) <= {0, 1, 2}
    whole = (tmp_path / "mnist.npz").read_bytes()
    for broken in (b"not an archive", whole[: len(whole) // 2]):
        (tmp_path / "mnist.npz").write_bytes(broken)
        with refused("mnist.npz", "x_train"):
            load("mnist")


def test_only_numbers_labels_as_they_are_given():
    data = Images(np.zeros((4, 1, 2, 2)), np.array([7, 3, 7, 5]), np.zeros((1, 1, 2, 2)), np.array([3]))
    assert only(data, (7, 3)).train_y.tolist() == [0, 1, 0]
    assert only(data, (7, 3)).test_y.tolist() == [1]


def test_pixels_are_scaled_where_they_are_whole_numbers():
    data = Images(
        np.full((2, 1, 2, 2), 51, np.uint8), np.zeros(2, np.uint8), np.full((1, 1, 2, 2), 0.3), np.zeros(1, int)
    )
    result = scaled(data)
    assert result.train_x.dtype == np.float32 and result.train_y.dtype == np.int64
    np.testing.assert_allclose(result.train_x, 0.2, rtol=1e-6)
    np.testing.assert_allclose(result.test_x, 0.3, rtol=1e-6)


def test_bad_images_are_refused():
    x, y = np.zeros((3, 8, 8)), np.array([0, 1, 2])
    assert checked_images((x, y, x, y)).train_x.shape == (3, 1, 8, 8)
    with refused("data must be four arrays", error=TypeError):
        checked_images(x)
    with refused("train_x", "square"):
        checked_images((np.zeros((3, 8, 7)), y, x, y))
    with refused("test_x", "square"):
        checked_images((x, y, np.zeros((0, 8, 8)), y[:0]))
    with refused("one size"):
        checked_images((x, y, np.zeros((3, 9, 9)), y))
    with refused("train_y", "3 images"):
        checked_images((x, y[:2], x, y))
    with refused("test_y"):
        checked_images((x, y, x, y - 1))
    with refused("not finite"):
        checked_images((x + np.nan, y, x, y))
    with refused("name must be one of"):
        load("cifar")


def test_a_file_that_is_no_idx_file_is_refused():
    with refused("idx"):
        from_idx(b"PK\x03\x04 and so on")
