import io
import json
import subprocess
import sys
import threading
import time
from typing import ClassVar

import joblib
import numpy as np
import pytest

import chefs
from chefs import RunError, Trace, running, tempering
from chefs import progress as notes
from chefs.storage import Store
from tests.helpers import refused
from tests.runs import is_prefix, likelihood_kernel, prior_kernel, same_draws

KERNELS = {"prior": prior_kernel(), "likelihood": likelihood_kernel()}


def run(seed=0, kernel=None, **options):
    settings = {"draws": 30, "chains": 2, "n_jobs": 1, "progress": False, **options}
    return chefs.sample(np.random.default_rng(seed), KERNELS["prior"] if kernel is None else kernel, **settings)


class TestArguments:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"draws": 0},
            {"draws": 2.5},
            {"draws": True},
            {"warmup": -1},
            {"warmup": "many"},
            {"thin": 0},
            {"thin": None},
            {"chains": 0},
            {"chains": 1.0},
            {"chains": False},
            {"names": ["a", "b"]},
            {"names": "abc"},
            {"names": 3},
        ],
        ids=str,
    )
    def test_numbers_and_names(self, wrong):
        with refused(*wrong):
            run(**wrong)

    @pytest.mark.parametrize(
        "temperatures",
        [1, 0, -3, True, 2.5, [], [1.0], [2.0, 3.0], [1.0, 1.0], [1.0, np.nan], [3, 2, 1], "hot", [[1, 2]]],
    )
    def test_temperatures(self, temperatures):
        with refused("temperatures"):
            run(kernel=likelihood_kernel(), temperatures=temperatures)

    def test_infinite_temperature_twice(self):
        with refused("temperatures"):
            run(kernel=likelihood_kernel(), temperatures=[1, np.inf, np.inf])

    def test_nothing_to_temper(self):
        with refused("temperatures", "PriorKernel", error=TypeError):
            run(temperatures=3)

    @pytest.mark.parametrize("rng", [0, None, np.random.RandomState(0), np.random], ids=lambda rng: type(rng).__name__)
    def test_rng(self, rng):
        with refused("rng", error=TypeError):
            chefs.sample(rng, KERNELS["prior"], draws=1)

    def test_rng_that_cannot_be_spawned(self):
        with refused("rng", "default_rng(seed)"):
            chefs.sample(np.random.Generator(np.random.RandomState(0)._bit_generator), KERNELS["prior"], draws=1)

    def test_calls_that_failed_are_forgotten_in_time(self):
        for _ in range(2 * running.ABANDONED.maxlen):
            running.ABANDONED.append("a call")
        assert len(running.ABANDONED) == running.ABANDONED.maxlen
        running.ABANDONED.clear()

    def test_kernel(self):
        with refused("kernel", error=TypeError):
            run(kernel=chefs.ChefsProcess())

    def test_folder_in_use(self, tmp_path):
        (tmp_path / "notes.txt").write_text("mine")
        with refused("not empty", error=FileExistsError):
            run(checkpoint=tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
        run(checkpoint=tmp_path / "run")
        with refused("not empty", "chefs.resume", error=FileExistsError):
            run(checkpoint=tmp_path / "run")

    def test_folder_of_a_run_that_was_killed_before_it_began(self, tmp_path):
        (tmp_path / ".lock").touch()
        (tmp_path / ".run.123.part").write_bytes(b"chefs")
        assert same_draws(run(checkpoint=tmp_path), run())
        assert not list(tmp_path.glob(".*.part"))

    def test_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").touch()
        with refused("cannot make the folder", error=RunError):
            run(checkpoint=tmp_path / "file" / "run")

    def test_resume(self, tmp_path):
        run(checkpoint=tmp_path / "run")
        with refused("draws", "30"):
            chefs.resume(tmp_path / "run", draws=29)
        with refused("draws"):
            chefs.resume(tmp_path / "run", draws="more")
        with refused("not a run", error=RunError):
            chefs.resume(tmp_path / "nowhere")
        with refused("kernel", "2 observed nodes", "3"):
            chefs.resume(tmp_path / "run", kernel=chefs.PriorKernel(chefs.ChefsProcess(), 2))


@pytest.mark.parametrize("name", KERNELS)
class TestSameSeedSameDraws:
    def test_whatever_does_the_work(self, name, tmp_path):
        expected = run(kernel=KERNELS[name], n_jobs=1)
        assert same_draws(run(kernel=KERNELS[name], n_jobs=2), expected)
        for backend in ("threading", "loky", "sequential"):
            with joblib.parallel_config(backend=backend):
                assert same_draws(run(kernel=KERNELS[name], n_jobs=2), expected)
                assert same_draws(run(kernel=KERNELS[name], n_jobs=None, checkpoint=tmp_path / backend), expected)
                assert same_draws(chefs.resume(tmp_path / backend), expected)
        assert not same_draws_or_none(run(seed=1, kernel=KERNELS[name]), expected)

    def test_chains_differ(self, name):
        trace = run(kernel=KERNELS[name])
        assert not same_draws_or_none(trace[0], trace[1])

    def test_more_chains_do_not_change_the_first(self, name):
        assert same_draws(run(kernel=KERNELS[name], chains=3)[:2], run(kernel=KERNELS[name]))

    def test_thin(self, name):
        every = run(kernel=KERNELS[name], draws=30)
        assert same_draws(run(kernel=KERNELS[name], draws=10, thin=3), every[:, 2::3])

    def test_warmup(self, name):
        every = run(kernel=KERNELS[name], draws=30)
        assert same_draws(run(kernel=KERNELS[name], draws=10, warmup=20), every[:, 20:])
        assert same_draws(run(kernel=KERNELS[name], draws=5, warmup=20, thin=2), every[:, 21::2])


def same_draws_or_none(a, b):
    try:
        return same_draws(a, b)
    except AssertionError:
        return False


def test_number_of_jobs_is_what_joblib_was_told(monkeypatch):
    asked = []
    original = joblib.Parallel

    def parallel(n_jobs, prefer):
        asked.append(n_jobs)
        return original(n_jobs=1)

    monkeypatch.setattr(joblib, "Parallel", parallel)
    monkeypatch.setattr(joblib, "cpu_count", lambda: 64)
    run(n_jobs=3)
    run(n_jobs=None)
    with joblib.parallel_config(n_jobs=7):
        run(n_jobs=None)
    assert asked == [3, 2, 7]


class TestStats:
    @pytest.mark.parametrize("name", KERNELS)
    def test_moves_are_counted_after_warmup(self, name, tmp_path):
        kernel = KERNELS[name]
        trace = run(kernel=kernel, draws=20, thin=3, warmup=17, checkpoint=tmp_path / "run")
        for stats in trace.stats:
            assert set(stats["moves"]) == set(kernel.move_names)
            assert sum(move["made"] for move in stats["moves"].values()) == 20 * 3 * kernel.n_moves
            assert all(0 <= move["accepted"] <= move["made"] for move in stats["moves"].values())
            assert sum(move["accepted"] for move in stats["moves"].values()) > 0
            assert stats["seconds"] > 0
        again = run(kernel=kernel, draws=20, thin=3, warmup=17)
        assert [stats["moves"] for stats in again.stats] == [stats["moves"] for stats in trace.stats]

    def test_swaps(self):
        trace = run(kernel=likelihood_kernel(), temperatures=3, draws=40, warmup=10)
        for stats in trace.stats:
            made = [stats["moves"][f"swap {pair}"]["made"] for pair in range(2)]
            assert made == [20, 20]
            accepted = [stats["moves"][f"swap {pair}"]["accepted"] for pair in range(2)]
            assert stats["swap_rates"] == [a / 20 for a in accepted]
            assert len(stats["powers"]) == 3


class TestTempering:
    def test_powers_adapt_in_warmup_and_not_after(self):
        steep = likelihood_kernel(steep_likelihood)
        warmups = {warmup: run(kernel=steep, temperatures=4, draws=1, warmup=warmup) for warmup in (19, 20, 40, 80)}
        powers = {warmup: np.array([stats["powers"] for stats in trace.stats]) for warmup, trace in warmups.items()}
        np.testing.assert_array_equal(powers[19][0], np.linspace(1, 0, 4))
        for before, after in ((19, 20), (20, 40), (40, 80)):
            assert (powers[before][:, 1:-1] != powers[after][:, 1:-1]).any()
        for values in powers.values():
            assert (values[:, 0] == 1).all()
            assert (values[:, -1] == 0).all()
            assert (np.diff(values) < 0).all()
        longer = run(kernel=steep, temperatures=4, draws=200, warmup=20)
        np.testing.assert_array_equal([stats["powers"] for stats in longer.stats], powers[20])

    def test_rejections_are_spread_evenly(self):
        """Where all of the rejection is between two powers, more of the powers go there."""
        state = tempering.TemperedState(
            (), np.array([1.0, 0.5, 0.25, 0.0]), np.array([6.0, 0.0, 0.0]), np.full(3, 10.0), 20, True
        )
        powers = tempering.spaced_anew(state)
        assert powers[0] == 1
        assert powers[-1] == 0
        np.testing.assert_allclose(powers[1:3], [1 - 0.5 * (0.602 / 3) / 0.6, 1 - 0.5 * (2 * 0.602 / 3) / 0.6])

    def test_given_temperatures(self):
        trace = run(kernel=likelihood_kernel(), temperatures=[1, 2, np.inf], draws=3)
        assert trace.stats[0]["powers"] == [1.0, 0.5, 0.0]

    def test_power_of_the_kernel_is_kept(self):
        trace = run(kernel=likelihood_kernel(power=0.5), temperatures=3, draws=3)
        assert trace.stats[0]["powers"] == [0.5, 0.25, 0.0]

    def test_resumed(self, tmp_path):
        options = {"kernel": likelihood_kernel(), "temperatures": [1, 3, np.inf], "warmup": 30}
        run(**options, draws=10, checkpoint=tmp_path / "run")
        assert same_draws(chefs.resume(tmp_path / "run", draws=25, n_jobs=1), run(**options, draws=25))


def steep_likelihood(dag):
    return 8.0 * dag.edges[1, 0] - 2.0 * dag.n_edges


class TestResume:
    def test_more_draws(self, tmp_path):
        for name, kernel in KERNELS.items():
            expected = run(kernel=kernel, draws=40, warmup=5, thin=2, names=["x", "y", "z"])
            run(kernel=kernel, draws=15, warmup=5, thin=2, names=["x", "y", "z"], checkpoint=tmp_path / name)
            for draws in (15, 16, 40):
                trace = chefs.resume(tmp_path / name, draws=draws, n_jobs=1)
                assert same_draws(trace, expected[:, :draws])
            assert trace.names == ["x", "y", "z"]
            assert [s["moves"] for s in trace.stats] == [s["moves"] for s in expected.stats]
            assert same_draws(Trace.load(tmp_path / name), expected)

    def test_finished_run_is_not_touched(self, tmp_path):
        expected = run(checkpoint=tmp_path / "run")
        before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
        assert same_draws(chefs.resume(tmp_path / "run"), expected)
        after = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
        assert before == after

    @pytest.mark.parametrize("part", ["", "chain-1"])
    def test_only_one_process_at_a_time(self, tmp_path, part):
        """Also where the process that began the run is gone but one of its workers goes on with a chain."""
        run(checkpoint=tmp_path / "run")
        code = f"""if True:
            import pathlib, chefs.storage
            store = chefs.storage.Store.open(pathlib.Path({str(tmp_path / "run")!r}))[0]
            with store.alone({part!r}):
                print("held", flush=True)
                input()"""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([sys.executable, "-c", code], **pipes) as other:
            assert other.stdout.readline() == "held\n"
            with pytest.raises(RunError, match=r"another process is writing to .*: wait for it, or stop it"):
                chefs.resume(tmp_path / "run", draws=35, n_jobs=1)
            other.communicate("\n", timeout=60)
        assert same_draws(chefs.resume(tmp_path / "run", draws=35), run(draws=35))

    def test_kernel_that_cannot_be_read(self, tmp_path, monkeypatch):
        expected = run(kernel=likelihood_kernel(), temperatures=2, draws=40)
        run(kernel=likelihood_kernel(Unreadable()), temperatures=2, checkpoint=tmp_path / "run")
        monkeypatch.setattr(Unreadable, "broken", True)
        with pytest.raises(RunError, match=r"cannot be read here \(LookupError: no such thing\).*kernel="):
            chefs.resume(tmp_path / "run", draws=40)
        again = chefs.resume(tmp_path / "run", draws=40, kernel=likelihood_kernel(), n_jobs=1)
        assert same_draws(again, expected)

    def test_other_moves(self, tmp_path):
        run(kernel=likelihood_kernel(), checkpoint=tmp_path / "run")
        with pytest.raises(RunError, match="other moves"):
            chefs.resume(tmp_path / "run", draws=40, kernel=OtherMoves(), n_jobs=1)

    def test_exception_and_interrupt_in_a_likelihood(self, tmp_path, monkeypatch):
        monkeypatch.setattr(running, "FLUSH_SECONDS", 0.0)
        expected = run(kernel=likelihood_kernel(), draws=60, warmup=10)
        for error in (KeyboardInterrupt(), ZeroDivisionError("my own mistake")):
            folder = tmp_path / type(error).__name__
            Failing.left, Failing.error = 100, error
            with pytest.raises(type(error)) as caught:
                run(kernel=likelihood_kernel(Failing()), draws=60, warmup=10, checkpoint=folder)
            assert caught.value is error
            part = Trace.load(folder)
            assert 0 < len(part[0]) < 60
            assert len(part[1]) == 0
            assert part.stats == [{}, {}]
            assert is_prefix(part, expected)
            Failing.left = 10**9
            assert same_draws(chefs.resume(folder, n_jobs=1), expected)

    def test_exception_in_another_thread(self, tmp_path):
        """The other chain, which has hours to go, stops as well and lets go of its folder."""
        kernel = likelihood_kernel(OneFails())
        with joblib.parallel_config(backend="threading"), pytest.raises(ValueError, match="my own mistake"):
            run(kernel=kernel, draws=10**8, n_jobs=2, checkpoint=tmp_path / "run")
        store = Store.open(tmp_path / "run")[0]
        for chain in range(2):
            assert wait_until_free(store, f"chain-{chain}")

    def test_exception_in_another_process(self, tmp_path):
        kernel = likelihood_kernel(in_vain)
        with joblib.parallel_config(backend="loky"), pytest.raises(ValueError, match="my own mistake"):
            run(kernel=kernel, n_jobs=2, checkpoint=tmp_path / "run")
        assert len(Trace.load(tmp_path / "run")) == 0

    def test_sealed_files_hold_no_secrets_from_people(self, tmp_path):
        """The second line of the file named run says in JSON what the run is."""
        run(checkpoint=tmp_path / "run", thin=2)
        facts = json.loads((tmp_path / "run" / "run").read_bytes().split(b"\n")[1])
        assert {"draws": 30, "thin": 2, "warmup": 0, "chains": 2, "n_observed": 3}.items() <= facts.items()


class OneFails:
    """A likelihood that fails in one of two threads, when both have called it."""

    threads: ClassVar[set[int]] = set()

    def __call__(self, dag):
        self.threads.add(threading.get_ident())
        if len(self.threads) == 2 and threading.get_ident() == max(self.threads):
            raise ValueError("my own mistake")
        return 0.0


def wait_until_free(store, part, patience=60.0):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            with store.alone(part):
                return True
        except RunError:
            time.sleep(0.01)
    return False


def in_vain(dag):
    if dag.n_edges > 1:
        raise ValueError("my own mistake")
    return 0.0


class Unreadable:
    """`skewed`, in an object that cannot always be unpickled."""

    broken = False

    def __call__(self, dag):
        return KERNELS["likelihood"].log_likelihood(dag)

    def __reduce__(self):
        return (_unreadable, ())


def _unreadable():
    if Unreadable.broken:
        raise LookupError("no such thing")
    return Unreadable()


class OtherMoves:
    n_observed = 3
    move_names = ("jump",)

    def init(self, rng): ...
    def step(self, rng, state): ...
    def draw(self, state): ...


class Failing:
    """`skewed`, until it fails."""

    left = 0
    error: BaseException = KeyboardInterrupt()

    def __call__(self, dag):
        Failing.left -= 1
        if Failing.left < 0:
            raise Failing.error
        return KERNELS["likelihood"].log_likelihood(dag)


class TestProgress:
    def shown(self, folder, chains):
        from rich.console import Console

        console = Console(width=100, file=io.StringIO())
        console.print(notes.table(folder, chains))
        return [
            [cell.strip() for cell in line.strip("│").split("│")]
            for line in console.file.getvalue().splitlines()
            if line.startswith("│")
        ]

    def test_table(self, tmp_path):
        notes.Notes(tmp_path, 0).write(notes.Note(500, 1000, 400, 1.25e6, 0.314, 17, 75.2))
        (tmp_path / "progress-2.json").write_text("{half")
        assert self.shown(tmp_path, 3) == [
            ["0", "50%", "400", "1,250,000", "31%", "17", "1:15"],
            ["1", "waiting", "", "", "", "", ""],
            ["2", "waiting", "", "", "", "", ""],
        ]

    def test_last_note_says_that_all_is_done(self, tmp_path):
        trace, _ = running.run_chain(
            KERNELS["prior"], running.Plan(7, 3, 2), np.random.default_rng(0), 0, None, tmp_path
        )
        note = notes.Note(**json.loads((tmp_path / "progress-0.json").read_text()))
        assert (note.done, note.total, note.draws, note.seconds_left) == (17, 17, 7, 0)
        assert note.n_nodes == trace.dags.n_nodes[-1]
        assert 0 < note.acceptance < 1
        assert note.moves_per_second > 0
        assert len(trace) == 7

    def test_shown_on_request(self, capsys, tmp_path):
        for options in ({}, {"checkpoint": tmp_path / "run"}):
            run(progress=True, **options)
            out, err = capsys.readouterr()
            assert not out
            assert "100%" in err
            assert "moves/s" in err
        assert not list((tmp_path / "run").glob("progress*"))

    def test_quiet(self, capsys, monkeypatch):
        for progress in (False, None):
            run(progress=progress)
            assert capsys.readouterr() == ("", "")
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        run(progress=False)
        assert capsys.readouterr() == ("", "")
        assert notes.wanted(None)

    def test_note_that_cannot_be_written(self, tmp_path):
        note = notes.Notes(tmp_path / "nowhere", 0)
        assert note.due()
        note.write(notes.Note(1, 2, 3, 4.0, 0.5, 6, 7.0))
        assert not note.due()

    def test_failure_is_passed_on(self, capsys):
        with pytest.raises(ValueError, match="my own mistake"):
            run(kernel=likelihood_kernel(in_vain), progress=True)
        assert "waiting" in capsys.readouterr().err
