"""Calls that are wrong, hundreds of them: one sentence, exit code 2, and nothing on the disk has changed."""

import io
import os
import re
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from chefs import sampling
from chefs.cli import app
from chefs.cli_reproduce import reproduce
from chefs.network import estimator
from tests.commands import SHORT, TABLE, contents, left

N_EXAMPLES = 200  # of each kind
COMMANDS = {
    "demo": (),
    "prior": (),
    "fit": ("data.csv", "--out", "new"),
    "resume": ("run",),
    "fantasy": ("run", "-o", "new.csv"),
    "impute": ("run", "-o", "new.csv"),
    "score": ("run", "data.csv"),
    "report": ("run",),
    "search": ("--out", "new"),
    "data": (),
    "reproduce prior": ("--out", "new"),
    "reproduce architectures": ("--out", "new"),
    "reproduce fantasy": ("--out", "new"),
    "reproduce table": ("--out", "new"),
}
GROUPS = ("reproduce",)


@pytest.fixture(scope="module")
def world(tmp_path_factory, compiled):
    """A folder with a table, a run and other things; whoever begins to work in it has failed."""
    folder = tmp_path_factory.mktemp("world")
    before = os.getcwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "100")
        os.chdir(folder)
        (folder / "data.csv").write_text(TABLE)
        with redirect_stdout(io.StringIO()):
            assert left("fit", "data.csv", "--out", "run", *SHORT) == 0
        for name in ("mine.csv", "mine.npy", "mine.html", "mine.png", "full/ring.png", "full/notes"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("mine")
        (folder / "hollow").mkdir()

        def begun(*_, **__):
            pytest.fail("work was begun")

        for owner, name in ((estimator, "have_compiled"), (estimator, "sample"), (sampling, "_run_all")):
            patch.setattr(owner, name, begun)
        yield folder
        os.chdir(before)


words = st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=12)
plain = words.filter(lambda word: not word.startswith("-"))
names = st.text(st.sampled_from("abcdeé_ 1"), min_size=1, max_size=5).map(lambda name: f"c{name.strip()}")
no_number = plain.filter(lambda word: not is_number(word))
below_one = st.integers(max_value=0).map(str)
negative = st.integers(max_value=-1).map(str)
not_positive = st.one_of(below_one, st.sampled_from(["nan", "inf", "-inf", "-0.5"]), no_number)


def is_number(word):
    try:
        float(word)
    except ValueError:
        return False
    return True


def call(command, *rest):
    """A strategy for the arguments of a command, with the usual ones between its name and what is wrong."""
    parts = [part if isinstance(part, st.SearchStrategy) else st.just(part) for part in rest]
    return st.tuples(*parts).map(lambda wrong: (*command.split(), *COMMANDS[command], *wrong))


def option(command, name, values):
    return call(command, name, values)


def one(*strategies):
    return st.one_of([option(*strategy) for strategy in strategies])


heights = st.one_of(
    st.lists(st.floats(0, 1), min_size=1, max_size=4).flatmap(
        lambda good: st.permutations([*map(str, good), "2"]).map(",".join)
    ),
    st.lists(no_number.filter(lambda word: "," not in word), min_size=1, max_size=3).map(",".join),
    st.sampled_from(["", ",", "0,", "-1", "1e9", "inf"]),
)
endings = st.sampled_from([".xls", ".txt", "", ".csv.gz", ".jpeg"])
taken = st.sampled_from(["mine.csv", "mine.npy", "run/run"])
away = st.builds(lambda word: f"away/{word.replace('/', '')}.csv", plain)

bad_values = one(
    ("prior", "--alpha", not_positive),
    ("prior", "--gamma", not_positive),
    ("prior", "--phi", not_positive),
    ("prior", "--observed", st.one_of(below_one, no_number)),
    ("prior", "--orders", heights),
    ("prior", "--draws", st.one_of(below_one, no_number)),
    ("prior", "--seed", st.one_of(negative, no_number)),
    ("fit", "--chains", st.one_of(below_one, no_number)),
    ("fit", "--draws", st.one_of(below_one, no_number)),
    ("fit", "--warmup", st.one_of(negative, no_number)),
    ("fit", "--minutes", not_positive),
    ("fit", "--seed", st.one_of(negative, no_number)),
    ("fit", "--orders", heights),
    ("fit", "--prior", plain.filter(lambda word: word not in ("icp", "cibp", "ecibp", "ibp"))),
    ("fit", "--start", plain.filter(lambda word: word not in ("gradient", "empty"))),
    ("fit", "--forbid", plain),
    ("fit", "--require", plain),
    ("fit", "--forbid", st.tuples(names, names).map("->".join)),
    ("fit", "--require", st.sampled_from(["dose->effect", "effect->dose", "dose->dose", "->", "dose->", "->dose"])),
    ("resume", "--draws", st.one_of(below_one, no_number, st.sampled_from(["1", "2"]))),
    ("resume", "--minutes", st.one_of(not_positive, st.floats(0.01, 100).map(str))),
    ("fantasy", "-n", st.one_of(below_one, no_number)),
    ("fantasy", "--seed", st.one_of(negative, no_number)),
    ("impute", "--draws", st.one_of(below_one, no_number)),
    ("impute", "--data", plain),
    ("score", "--effort", st.one_of(below_one, no_number)),
    ("score", "--seed", st.one_of(negative, no_number)),
    ("report", "--test", plain),
    ("demo", "--minutes", not_positive),
    ("demo", "--seed", st.one_of(negative, no_number)),
    ("demo", "--out", st.sampled_from(["full", "data.csv", "data.csv/new", "run/run/new"])),
    ("search", "--draws", st.one_of(below_one, no_number)),
    ("search", "--chains", st.one_of(below_one, no_number)),
    ("search", "--minutes", st.one_of(negative, no_number)),
)
bad_places = st.one_of(
    st.tuples(st.just("fantasy"), st.just("run"), st.just("-o"), st.one_of(taken, away)),
    st.tuples(st.just("impute"), st.just("run"), st.just("-o"), st.one_of(taken, away)),
    st.tuples(st.sampled_from(["fantasy", "impute"]), st.just("run"), st.just("-o"), endings.map("new{}".format)),
    st.tuples(st.just("prior"), st.just("--plot"), st.sampled_from(["mine.png", "away/a.png", "new.gif", "new"])),
    st.tuples(st.just("prior"), st.just("--graphs"), st.one_of(taken, away)),
    st.tuples(st.just("report"), st.just("run"), st.just("-o"), st.sampled_from(["mine.html", "away/a.html", "new"])),
    st.tuples(st.just("fit"), st.just("data.csv"), st.just("--out"), st.sampled_from(["full", "run", "data.csv/a"])),
    st.tuples(st.sampled_from(["resume", "report"]), st.one_of(plain, st.sampled_from(["hollow", "full", "data.csv"]))),
    st.tuples(
        st.sampled_from(["fantasy", "impute"]),
        st.one_of(plain, st.sampled_from(["hollow", "full", "data.csv"])),
        st.just("-o"),
        st.just("new.csv"),
    ),
    st.tuples(st.just("score"), st.one_of(plain, st.just("hollow")), st.just("data.csv")),
    st.tuples(st.just("score"), st.just("run"), plain),
    st.tuples(st.just("fit"), plain, st.just("--out"), st.just("new")),
)
bad_words = st.one_of(
    plain.filter(lambda word: word not in COMMANDS and word not in GROUPS).map(lambda word: (word,)),
    plain.filter(lambda word: f"reproduce {word}" not in COMMANDS).map(lambda word: ("reproduce", word)),
    st.sampled_from([command for command in COMMANDS if command != "data"]).flatmap(
        lambda command: words.map(lambda word: (*command.split(), *COMMANDS[command], f"--{word}x", "--no-such-option"))
    ),
    st.sampled_from([*COMMANDS]).flatmap(lambda command: call(command, "surplus", plain)),
    st.sampled_from([(*command.split(), *usual[:-1]) for command, usual in COMMANDS.items() if usual]),
)

cells = st.floats(-1e6, 1e6).map(str)
columns = st.lists(names, min_size=2, max_size=4, unique=True)


FAULTS = ("text", "ragged", "twice", "unnamed", "constant", "hollow", "infinite", "single", "names", "empty")


@st.composite
def broken_tables(draw):
    """The content of a .csv file that cannot be fitted to."""
    header = draw(columns)
    rows = [[draw(cells) for _ in header] for _ in range(draw(st.integers(2, 5)))]
    column, row = draw(st.integers(0, len(header) - 1)), draw(st.integers(0, len(rows) - 1))
    match draw(st.sampled_from(FAULTS)):
        case "text":
            rows[row][column] = "x" + draw(names)
        case "ragged":
            rows[row].append("1")
        case "twice":
            header[column] = header[column - 1]
        case "unnamed":
            header[column] = " "
        case "constant":
            for line in rows:
                line[column] = "0.1"
        case "hollow":
            for line in rows:
                line[column] = draw(st.sampled_from(["", "nan", "NA", "?"]))
        case "infinite":
            rows[row][column] = draw(st.sampled_from(["inf", "-Infinity", "1e999"]))
        case "single":
            rows = rows[:1]
        case "names":
            rows = []
        case "empty":
            return b"\n" * draw(st.integers(0, 3))
    return "\n".join(",".join(line) for line in (header, *rows)).encode()


@st.composite
def other_columns(draw):
    """A good table with other columns than the run has."""
    header = draw(st.one_of(columns, st.sampled_from([["dose"], ["effect", "dose", "cost"], ["effect", "Dose"]])))
    rows = [[draw(cells) for _ in header] for _ in range(3)]
    return "\n".join(",".join(line) for line in (header, *rows)).encode()


def saved(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


broken_arrays = st.one_of(
    st.binary(max_size=40),
    st.binary(max_size=40).map(lambda noise: saved(np.zeros((2, 2)))[:100] + noise),
    st.sampled_from([np.zeros(3), np.zeros((2, 2, 2)), np.array([["a"]]), np.array([[None]]), np.zeros((0, 2))]).map(
        saved
    ),
)
bad_files = st.one_of(
    st.tuples(st.just("bad.csv"), broken_tables(), st.just(("fit", "{}", "--out", "new"))),
    st.tuples(st.just("bad.npy"), broken_arrays, st.just(("fit", "{}", "--out", "new"))),
    st.tuples(st.just("bad.parquet"), st.binary(max_size=40), st.just(("fit", "{}", "--out", "new"))),
    st.tuples(
        st.just("bad.csv"),
        other_columns(),
        st.sampled_from(
            [
                ("score", "run", "{}"),
                ("impute", "run", "-o", "new.csv", "--data", "{}"),
                ("report", "run", "-o", "new.html", "--test", "{}"),
            ]
        ),
    ),
    st.tuples(st.sampled_from(["bad.npy", "bad.parquet"]), st.binary(max_size=40), st.just(("score", "run", "{}"))),
)
KINDS = {
    "values": st.tuples(st.just(None), st.just(b""), bad_values),
    "places": st.tuples(st.just(None), st.just(b""), bad_places),
    "words": st.tuples(st.just(None), st.just(b""), bad_words),
    "files": bad_files,
}


def test_every_command_is_here():
    found = {command.callback.__name__ for command in app.registered_commands}
    found |= {f"reproduce {command.name}" for command in reproduce.registered_commands}
    assert found == set(COMMANDS)


def answer(world, arguments):
    """Exit code, standard output, standard error, and whether anything in the folder has changed, which is undone."""
    before, out, err = contents(world), io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = left(*arguments)
    after = contents(world)
    for path in sorted(after.keys() - before.keys(), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    return code, out.getvalue(), err.getvalue(), after != before


def test_right_calls_are_told_apart(world):
    """What the next test looks for is not there where nothing is wrong."""
    code, out, err, changed = answer(world, ("data",))
    assert (code, err, changed) == (0, "", False) and out
    code, out, err, changed = answer(world, ("fantasy", "run", "-n", "2", "-o", "new.csv"))
    assert (code, out, err, changed) == (0, "2 points: new.csv\n", "", True)
    assert not (world / "new.csv").exists()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=N_EXAMPLES)
@given(data=st.data())
def test_a_wrong_call_gets_one_sentence_and_changes_nothing(world, kind, data):
    name, content, arguments = data.draw(KINDS[kind])
    if name:
        (world / name).write_bytes(content)
    arguments = [argument.replace("{}", name) if name else argument for argument in arguments]
    note(f"{arguments} {content!r}")
    try:
        code, out, sentence, changed = answer(world, arguments)
    finally:
        if name:
            (world / name).unlink()
    assert (code, out, changed) == (2, "", False)
    assert sentence.startswith("chefs: ") and sentence.endswith("\n") and len(sentence.splitlines()) == 1
    assert 10 < len(sentence) < 400 and not re.search(r"Traceback|\[Errno", sentence)
