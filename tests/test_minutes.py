"""Runs that are bounded by time, on a clock of their own: one second a step."""

import itertools

import numpy as np
import pytest

import chefs
from chefs import progress as notes
from chefs import running
from chefs.kernels import Info
from chefs.storage import Store
from tests.runs import prior_kernel, same_draws


class Clock:
    """Time that passes when a kernel makes a step."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(running.time, "monotonic", clock.monotonic)
    return clock


class Slow:
    """A kernel that takes a second a step, and `start` seconds to begin; it says when it was frozen."""

    prefer = "threads"
    n_observed = 3

    def __init__(self, clock, start=0.0, pace=None):
        self.kernel, self.clock, self.start, self.frozen = prior_kernel(), clock, start, []
        self.pace = itertools.repeat(1.0) if pace is None else pace
        self.move_names = self.kernel.move_names

    def init(self, rng):
        self.clock.now += self.start
        return self.kernel.init(rng)

    def step(self, rng, state):
        self.clock.now += next(self.pace)
        state, info = self.kernel.step(rng, state)
        return state, Info(info.tally, np.linspace(0.0, 1.0, len(self.move_names)))

    def freeze(self, state):
        self.frozen.append(self.clock.now)
        return state

    def draw(self, state):
        return self.kernel.draw(state)


def run(kernel, **options):
    return chefs.sample(np.random.default_rng(0), kernel, **{"n_jobs": 1, "progress": False, "chains": 1, **options})


def test_half_of_the_time_is_warm_up_and_the_rest_draws(clock):
    kernel = Slow(clock)
    trace = run(kernel, draws=10**6, warmup=10**6, thin=3, minutes=2)
    assert kernel.frozen == [60.0]
    assert (len(trace), clock.now) == (20, 120.0)
    assert trace.stats[0]["warmup"] == 60 and trace.stats[0]["seconds"] == 120.0


def test_the_time_of_the_start_counts(clock):
    kernel = Slow(clock, start=50.0)
    trace = run(kernel, draws=10**6, warmup=10**6, minutes=2)
    assert kernel.frozen == [60.0] and len(trace) == 60


def test_a_run_that_needs_less_is_as_without_a_limit(clock):
    limited, free = (run(Slow(clock), draws=20, warmup=15, thin=2, minutes=m) for m in (5, None))
    assert same_draws(limited, free)
    assert limited.stats[0]["warmup"] == 15


def test_there_is_always_a_draw(clock):
    trace = run(Slow(clock, start=1000.0), draws=50, warmup=50, thin=4, chains=3, minutes=0.01)
    assert [len(chain) for chain in trace.chains] == [1, 1, 1]


def test_chains_that_wait_for_each_other_share_the_time(clock):
    trace = run(Slow(clock), draws=10**6, chains=4, minutes=4)
    assert clock.now == 240.0
    assert [len(chain) for chain in trace.chains] == [60] * 4


def test_chains_of_different_lengths_make_one_trace(clock):
    pace = itertools.chain([1.0] * 60, itertools.repeat(2.0))
    trace = run(Slow(clock, pace=pace), draws=10**6, chains=2, minutes=2)
    assert [len(chain) for chain in trace.chains] == [60, 30]
    assert (trace.n_draws, len(trace)) == (30, 90)
    assert trace.to_arviz()["posterior"].sizes["draw"] == 30


def test_a_run_in_a_folder_stops_and_goes_on_with_more_time(clock, tmp_path):
    kernel = Slow(clock)
    first = run(kernel, draws=90, warmup=10**6, minutes=2, checkpoint=tmp_path / "run", about={"for": "ever"})
    again = chefs.resume(tmp_path / "run", kernel=kernel, n_jobs=1, progress=False)
    assert same_draws(first, again) and len(first) == 60 and again.about == {"for": "ever"}
    longer = chefs.resume(tmp_path / "run", kernel=kernel, n_jobs=1, minutes=100, progress=False)
    assert len(longer) == 90 and kernel.frozen == [60.0]
    assert same_draws(longer[:, :60], first)
    assert chefs.Trace.load(tmp_path / "run").about == {"for": "ever"}
    for minutes, sentence in ((3, "at least 100"), (-1, "positive"), ("x", "positive")):
        with pytest.raises(ValueError, match=f"minutes must be.*{sentence}"):
            chefs.resume(tmp_path / "run", kernel=kernel, minutes=minutes)


def test_a_longer_limit_that_adds_nothing_is_refused(clock, tmp_path):
    kernel = Slow(clock)
    for folder, draws in (("drawn", 5), ("timed", 10**6)):
        run(kernel, draws=draws, chains=2, minutes=4, checkpoint=tmp_path / folder)
    before = (tmp_path / "drawn" / "run").read_bytes(), (tmp_path / "timed" / "run").read_bytes()
    with pytest.raises(ValueError, match="minutes add nothing to a run that has all its 5 draws: give more draws"):
        chefs.resume(tmp_path / "drawn", kernel=kernel, minutes=5)
    with pytest.raises(ValueError, match=r"draws add nothing to a run whose 4\.0 minutes are over: give more minutes"):
        chefs.resume(tmp_path / "timed", kernel=kernel, n_jobs=1, draws=2 * 10**6)
    assert before == ((tmp_path / "drawn" / "run").read_bytes(), (tmp_path / "timed" / "run").read_bytes())
    how = {"kernel": kernel, "n_jobs": 1, "progress": False}
    assert len(chefs.resume(tmp_path / "drawn", draws=7, **how)) == 14
    assert len(chefs.resume(tmp_path / "drawn", draws=8, minutes=5, **how)) == 16
    assert len(chefs.resume(tmp_path / "drawn", draws=8, minutes=5, **how)) == 16  # the same again does no harm
    assert len(chefs.resume(tmp_path / "timed", minutes=6, **how)) == 360


def test_a_run_of_before_there_were_minutes_goes_on(clock, tmp_path):
    run(Slow(clock), draws=3, checkpoint=tmp_path / "run")
    store, header, body = Store.open(tmp_path / "run")
    store.write("run", {name: fact for name, fact in header.items() if name != "minutes"}, body)
    assert len(chefs.resume(tmp_path / "run", kernel=Slow(clock), draws=5, n_jobs=1, progress=False)) == 5


@pytest.mark.parametrize("n_jobs", ["a", 0, 1.5, True])
def test_jobs_are_none_or_whole(clock, tmp_path, n_jobs):
    with pytest.raises(ValueError, match="n_jobs must be None or a whole number other than 0"):
        run(Slow(clock), draws=1, n_jobs=n_jobs, checkpoint=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    run(Slow(clock), draws=1, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="n_jobs must be None or a whole number other than 0"):
        chefs.resume(tmp_path / "run", kernel=Slow(clock), draws=2, n_jobs=n_jobs)


def test_minutes_are_refused_where_they_mean_nothing(clock, tmp_path):
    with pytest.raises(ValueError, match="minutes must be positive"):
        run(Slow(clock), draws=1, minutes=0)
    run(Slow(clock), draws=1, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="the run has no such end"):
        chefs.resume(tmp_path / "run", kernel=Slow(clock), minutes=5)


def test_times_of_moves_are_added_up_after_warm_up(clock):
    (stats,) = run(Slow(clock), draws=7, warmup=5).stats
    seconds = [move["seconds"] for move in stats["moves"].values()]
    np.testing.assert_allclose(seconds, 7 * np.linspace(0.0, 1.0, len(seconds)))
    (silent,) = run(prior_kernel(), draws=2).stats
    assert all("seconds" not in move for move in silent["moves"].values())


def test_notes_say_how_much_time_is_left(clock, tmp_path):
    kernel = Slow(clock)
    plan = running.Plan(10**6, 10**6, 1, 2.0)
    at = running._start(kernel, np.random.default_rng(0))
    for _ in itertools.islice(running._advance(kernel, plan, at, notes.Notes(None, 0), running.NOBODY, []), 90):
        pass
    note = running._note(kernel, plan, at, kernel.step(at.rng, at.state)[1], 1.0)
    assert (note.done, note.total, note.draws, note.seconds_left) == (90, 120, 30, 30.0)


def test_facts_travel_with_a_trace(clock, tmp_path):
    trace = run(Slow(clock), draws=3, about={"scale": [1.5, 2.5]})
    trace.save(tmp_path / "saved")
    for other in (trace[:, 1:], chefs.Trace.load(tmp_path / "saved"), chefs.Trace.from_xarray(trace.to_xarray())):
        assert other.about == {"scale": [1.5, 2.5]}
