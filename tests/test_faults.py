"""Never lose a run: killed processes, full disks and damaged files give the right draws or one clear sentence."""

import os
import pickle
import resource
import shutil

import numpy as np
import pytest

import chefs
from chefs import RunError, Trace, running, storage
from chefs.storage import MAGIC, Store
from tests.faults import (
    N_CHAINS,
    PLANS,
    Operations,
    begin,
    disk_full,
    go_on,
    in_child,
    killed_after,
    killed_at_operation,
)
from tests.runs import is_prefix, same_draws


@pytest.fixture(scope="module")
def expected():
    """What each run gives when nothing goes wrong."""
    return {plan: begin(plan) for plan in PLANS}


@pytest.fixture
def quick_disk(monkeypatch):
    """Do not wait for the disk where nothing is killed."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(running, "FLUSH_SECONDS", np.inf)
    monkeypatch.setattr(running, "FLUSH_DRAWS", 12)


def result(function, *args, **options):
    """A trace, or the sentence that says why there is none."""
    try:
        return function(*args, **options)
    except RunError as error:
        message = str(error)
    assert "\n" not in message
    assert 10 < len(message) < 600
    return message


def readable(folder):
    """What of a stopped run can be read: all that was written, or nothing where it was stopped before it began."""
    trace = result(Trace.load, folder)
    if isinstance(trace, str):
        assert "is not a run" in trace or "state is missing" in trace
        return None
    return trace


def continued(plan, folder):
    """Go on with a stopped run, or begin it where it had not begun."""
    return go_on(folder) if (folder / "run").exists() else begin(plan, folder)


def half_written(folder):
    return sorted(path.name for path in folder.rglob("*.part"))


class TestKilled:
    @pytest.mark.parametrize("plan", PLANS)
    def test_at_random_moments(self, plan, expected, tmp_path):
        rng = np.random.default_rng(11)
        n_killed = 0
        for trial in range(12):
            folder = tmp_path / f"{trial}"
            for _ in range(1 + trial % 3):
                n_killed += killed_after(plan, folder, rng.uniform(0.0, 0.12))
                part = readable(folder)
                assert part is None or is_prefix(part, expected[plan])
            assert same_draws(continued(plan, folder), expected[plan])
            assert not half_written(folder)
        print(f"{n_killed} runs were killed")

    @pytest.mark.parametrize("plan", PLANS)
    def test_at_random_operations_of_the_disk(self, plan, expected, tmp_path):
        rng = np.random.default_rng(12)
        for trial in range(12):
            folder = tmp_path / f"{trial}"
            seen = 0
            for _ in range(1 + trial % 3):
                assert killed_at_operation(plan, folder, int(rng.integers(1, 80)))
                part = readable(folder)
                if part is not None:
                    assert is_prefix(part, expected[plan])
                    assert len(part) >= seen  # what could once be read does not go away
                    seen = len(part)
            assert same_draws(continued(plan, folder), expected[plan])
            assert not half_written(folder)

    def test_at_every_operation(self, expected, tmp_path, monkeypatch, quick_disk):
        """The same without other processes, for every operation in turn: an exception in place of the signal."""
        seen = 0
        for at in range(1, n_operations(tmp_path / "whole") + 1):
            folder = tmp_path / f"{at}"
            with monkeypatch.context() as patch:
                Operations(killed, at).install(patch.setattr)
                with pytest.raises(Killed):
                    begin("prior", folder)
            part = readable(folder)
            assert part is None or is_prefix(part, expected["prior"])
            assert seen <= (0 if part is None else len(part))
            seen = 0 if part is None else len(part)
            assert same_draws(continued("prior", folder), expected["prior"])

    def test_draws_written_ahead_of_the_state_stay_readable(self, expected, tmp_path, monkeypatch, quick_disk):
        """Killed between a segment and its state, twice: no draw that was there goes away."""
        folder = tmp_path / "run"
        original = Store.write

        def killed_at_state(store, name, facts, body=b""):
            if name.endswith("state") and facts["steps"]:
                raise Killed
            original(store, name, facts, body)

        for function, n_draws in ((begin, 30), (lambda _, folder: go_on(folder), 5)):
            with monkeypatch.context() as patch:
                patch.setattr(Store, "write", killed_at_state)
                patch.setattr(running, "FLUSH_DRAWS", n_draws)
                with pytest.raises(Killed):
                    function("prior", folder)
            assert len(Trace.load(folder)) == 30
        assert same_draws(go_on(folder), expected["prior"])

    def test_stats_of_a_run_that_was_made_longer(self, tmp_path, monkeypatch, quick_disk):
        """A chain that goes on has none until it has ended again."""
        folder = tmp_path / "run"
        stats = begin("prior", folder).stats
        with monkeypatch.context() as patch:
            Operations(killed, 15).install(patch.setattr)
            with pytest.raises(Killed):
                go_on(folder, draws=100)
        assert len(Trace.load(folder)[0]) > 36
        assert Trace.load(folder).stats == [{}, stats[1]]
        assert [s["moves"] for s in go_on(folder).stats] == [s["moves"] for s in begin("prior", draws=100).stats]


def n_operations(folder):
    """What a whole run asks of the disk."""
    with pytest.MonkeyPatch.context() as patch:
        operations = Operations().install(patch.setattr)
        begin("prior", folder)
    assert operations.count > 80
    return operations.count


class Killed(BaseException):
    pass


def killed():
    raise Killed


class TestDiskFull:
    def test_at_every_operation(self, expected, tmp_path, monkeypatch, quick_disk):
        for at in range(1, n_operations(tmp_path / "whole") + 1):
            folder = tmp_path / f"{at}"
            with monkeypatch.context() as patch:
                Operations(disk_full, at).install(patch.setattr)
                message = result(begin, "prior", folder)
            assert "the disk is full" in message
            assert not half_written(folder)
            part = readable(folder)
            assert part is None or is_prefix(part, expected["prior"])
            assert same_draws(continued("prior", folder), expected["prior"])

    def test_saving_a_trace(self, expected, tmp_path, monkeypatch, quick_disk):
        with monkeypatch.context() as patch:
            operations = Operations().install(patch.setattr)
            expected["prior"].save(tmp_path / "whole")
        for at in range(1, operations.count + 1):
            folder = tmp_path / f"{at}"
            with monkeypatch.context() as patch:
                Operations(disk_full, at).install(patch.setattr)
                assert "the disk is full" in result(expected["prior"].save, folder)
            assert not half_written(tmp_path)
            trace = result(Trace.load, folder)  # whole, where only the last flush of the folder failed
            assert "is not a run" in trace if isinstance(trace, str) else same_draws(trace, expected["prior"])

    def test_real_limit(self, tmp_path):
        """The system itself refuses to write a file that is too long."""
        folder = tmp_path / "run"
        begin("prior", folder)
        largest = max(path.stat().st_size for path in folder.rglob("*"))
        pipe, process = in_child(_limited, folder, largest + 500)
        assert pipe.poll(60)
        kind, message = pipe.recv()
        process.join(60)
        assert kind == "RunError"
        assert "cannot write" in message
        assert "File too large" in message
        assert "chefs.resume" in message
        assert not half_written(folder)
        expected = begin("prior", draws=600)
        part = Trace.load(folder)
        assert is_prefix(part, expected)
        assert len(part) >= N_CHAINS * PLANS["prior"][1]["draws"]
        assert same_draws(go_on(folder), expected)


def _limited(pipe, folder, size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        go_on(folder, draws=600)
    except Exception as error:
        pipe.send((type(error).__name__, str(error)))


def truncated(rng, content, others):
    return content[: rng.integers(0, len(content))]


def bits_flipped(rng, content, others):
    flipped = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        flipped[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    return bytes(flipped)


def zeroed(rng, content, others):
    start = rng.integers(0, len(content))
    length = min(512, len(content) - start)
    return content[:start] + bytes(int(length)) + content[start + length :]


def foreign(rng, content, others):
    choices = [b"", b"\n", rng.bytes(300), b"chefs 1 \n", b'{"draws": 3}', pickle.dumps({"steps": 3})]
    choices += [MAGIC.replace(b"1", b"2") + content[len(MAGIC) :], content + b"\n", content[::-1], content * 2]
    return choices[rng.integers(len(choices))]


def misplaced(rng, content, others):
    """Another file of the run, of another chain, or of the same place in another run."""
    return others[rng.integers(len(others))]


def deleted(rng, content, others):
    return None


DAMAGES = [truncated, bits_flipped, zeroed, foreign, misplaced, deleted]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A run that has ended, one that was killed between two files, and one to take files from."""
    base = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "FLUSH_SECONDS", np.inf)
        patch.setattr(running, "FLUSH_DRAWS", 9)
        for name in ("ended", "other"):
            begin("prior", base / name)
        Operations(killed, 75).install(patch.setattr)
        with pytest.raises(Killed):
            begin("prior", base / "stopped")
    return base


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"}


class TestDamagedFiles:
    @pytest.mark.parametrize("damage", DAMAGES)
    @pytest.mark.parametrize("name", ["ended", "stopped"])
    def test_right_draws_or_one_sentence(self, folders, name, damage, expected, tmp_path, quick_disk):
        rng = np.random.default_rng([len(name), DAMAGES.index(damage)])
        intact = Trace.load(folders / name)
        n_refused = 0
        for trial in range(20):
            folder = tmp_path / f"{trial}"
            shutil.copytree(folders / name, folder)
            files = contents(folder)
            target = list(files)[trial % len(files)]
            elsewhere = folders / "other" / target.relative_to(folder)
            others = [content for content in files.values() if content != files[target]]
            others += [elsewhere.read_bytes()] * len(others) if elsewhere.exists() else []
            content = damage(rng, files[target], others)
            assert content != files[target]
            if content is None:
                target.unlink()
            else:
                target.write_bytes(content)
            before = contents(folder)
            loaded = result(Trace.load, folder)
            n_refused += isinstance(loaded, str)
            # A damaged file is never passed over. Missing ones can belong to what had not been written yet.
            assert isinstance(loaded, str) or (damage is deleted and same_draws(loaded, intact))
            partial = result(Trace.load, folder, partial=True)
            assert target.name == "run" if isinstance(partial, str) else is_prefix(partial, intact)
            assert contents(folder) == before
            again = result(go_on, folder)
            assert contents(folder) == before if isinstance(again, str) else same_draws(again, expected["prior"])
        assert n_refused > 10

    def test_state_that_does_not_fit_the_draws(self, tmp_path, quick_disk):
        """An old copy of the state, put back."""
        begin("prior", tmp_path / "run")
        old = (tmp_path / "run" / "chain-0" / "state").read_bytes()
        go_on(tmp_path / "run", draws=70)
        (tmp_path / "run" / "chain-0" / "state").write_bytes(old)
        with pytest.raises(RunError, match="does not fit the draws beside it"):
            go_on(tmp_path / "run")

    def test_draws_that_do_not_follow_each_other(self, folders, tmp_path):
        """An old copy of a segment, from before more was written in its place, put back."""
        shutil.copytree(folders / "ended", tmp_path / "run")
        store = Store.open(tmp_path / "run")[0]
        facts, body = store.read("chain-1/draws-000001")
        store.write("chain-1/draws-000001", {**facts, "first": 7}, body)
        assert "begins with draw 7 where draw 9 should follow" in result(Trace.load, tmp_path / "run")
        assert "begins with draw 7" in result(go_on, tmp_path / "run")
        assert [len(chain) for chain in Trace.load(tmp_path / "run", partial=True).chains] == [36, 9]

    def test_state_that_cannot_be_unpickled(self, folders, tmp_path):
        shutil.copytree(folders / "ended", tmp_path / "run")
        store = Store.open(tmp_path / "run")[0]
        facts, _ = store.read("chain-1/state")
        store.write("chain-1/state", facts, b"no pickle")
        with pytest.raises(RunError, match=r"chain-1/state cannot be read here \(UnpicklingError"):
            go_on(tmp_path / "run", draws=50)

    def test_folder_in_place_of_a_file(self, folders, tmp_path):
        shutil.copytree(folders / "ended", tmp_path / "run")
        (tmp_path / "run" / "chain-0" / "state").unlink()
        (tmp_path / "run" / "chain-0" / "state").mkdir()
        for function in (Trace.load, chefs.resume):
            with pytest.raises(RunError, match=r"cannot read .*Is a directory"):
                function(tmp_path / "run")


def test_without_locks_and_folders_that_can_be_opened(tmp_path, monkeypatch, expected):
    """As on Windows."""
    monkeypatch.setattr(storage, "fcntl", None)
    monkeypatch.setattr(storage, "_sync_folder", lambda folder: None)
    plan = next(iter(PLANS))
    assert same_draws(begin(plan, checkpoint=tmp_path / "run"), expected[plan])
    assert same_draws(go_on(tmp_path / "run"), expected[plan])
