"""Every command that README.md and the docs show is run, the long ones with a quick setting."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from chefs.network import predictive
from tests.commands import left

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAMS = ("chefs", "make", "pip", "python")
TABLE = "dose,weight,effect\n1,60,2\n2,75,\n3,80,0.5\n0,65,10\n2,,4\n"
FIT = "--minutes 0.01 --chains 1 --start empty --no-report"
SEARCH = "--dataset digits --preset default --device cpu --minutes 0"
TURN = "--minutes-per-fit 0.01 --chains 1"
QUICK = {  # what comes later on the command line counts
    "chefs fit": FIT,
    "chefs resume": "--minutes 0.02 --no-report",
    "chefs demo": "--minutes 0.02",
    "chefs fantasy": "-n 20",
    "chefs impute": "--draws 3",
    "chefs search": SEARCH,
    "chefs reproduce architectures": SEARCH,
    "chefs reproduce table": f"--datasets geyser --priors icp --alternatives mixture --seeds 1 {TURN} --start empty",
    "chefs reproduce fantasy": f"--datasets geyser {TURN}",
    "python -m chefs.experiments.architectures": "--preset default --data digits --device cpu --minutes 0",
    "python -m chefs.experiments.mixing": "--datasets geyser --variants empty --seeds 1 --chains 1 --seconds 0.3",
    "python -m chefs.experiments.recovery": "--hidden 1 --draws 1 --points 50 --seconds 0.3 --variants ours",
    "python -m chefs.experiments.regression": "--datasets valley --models linear --seeds 1",
    "python -m chefs.experiments.teacher": "--datasets moons --variants truth --seeds 1 --baselines 1",
}
MOST_SECONDS = 300  # of a command: one that has no quick setting, and needs one, does not pass in silence
OUTPUTS = ("--out", "--output", "-o", "--plot", "--graphs")


def commands(page, programs=PROGRAMS):
    """The commands of a page: lines of its blocks that begin with a program, and whole commands within its lines."""
    text = page if isinstance(page, str) else page.read_text(encoding="utf-8")
    found = []
    for language, block in re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if language in ("", "sh", "bash", "shell", "console"):
            lines = block.replace("\\\n", " ").splitlines()
            found += [line.removeprefix("$ ") for line in lines]
    without = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found += re.findall(r"`(chefs [^`]* -[^`]*)`", without)  # mentions such as `chefs fit` have no options
    words = [shlex.split(line, comments=True) for line in found if line.split("#")[0].count("'") % 2 == 0]
    return [command for command in words if command and command[0] in programs]


def quickened(command):
    """The command with the quick setting of the longest prefix that has one."""
    line = shlex.join(command)
    prefixes = [prefix for prefix in QUICK if f"{line} ".startswith(f"{prefix} ")]
    return [*command, *shlex.split(QUICK[max(prefixes, key=len)])] if prefixes else command


def prepare(command):
    """Tables that a command reads are there; what it writes is not."""
    for option, value in zip(command, command[1:], strict=False):
        if option in OUTPUTS and Path(value).exists():
            shutil.rmtree(value) if Path(value).is_dir() else Path(value).unlink()
    for name in ("ring.png", "ring.html") if command[:2] == ["chefs", "demo"] else ():
        Path(name).unlink(missing_ok=True)
    written = [value for option, value in zip(command, command[1:], strict=False) if option in OUTPUTS]
    for word in command:
        if word.endswith(".csv") and word not in written and not Path(word).exists():
            Path(word).write_text(TABLE)


def run_chefs(command):
    prepare(command)
    assert left(*quickened(command)[1:]) == 0


def run_module(command):
    """python -m: in a process of its own, as it is meant."""
    prepare(command)
    done = subprocess.run(
        [sys.executable, *quickened(command)[1:]], capture_output=True, text=True, timeout=MOST_SECONDS
    )
    assert done.returncode in (0, 3), done.stderr  # 3: a search that was stopped before its end


def run_make(command):
    """Look, and do not touch: the targets are run by the project itself, and by scripts/fresh."""
    subprocess.run([*command, "--dry-run"], cwd=ROOT, check=True, capture_output=True)


def run_pip(command):
    """Where chefs is to be installed from, and whether it has the extras that are asked for."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert command[1] == "install"
    (what,) = [word for word in command[2:] if not word.startswith("-")]
    source, named = re.fullmatch(r"(\.|chefs)(?:\[([\w,]+)\])?", what).groups()
    assert source and set(named.split(",") if named else ()) <= set(extras)


RUN = {"chefs": run_chefs, "make": run_make, "pip": run_pip, "python": run_module}


@pytest.fixture
def brief(monkeypatch, tmp_path, compiled):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(predictive.DENSITY, "walks", predictive.Effort(4, 20, 1))
    monkeypatch.setitem(predictive.CONDITIONAL, "walks", predictive.Effort(4, 20, 1))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if commands(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_the_commands_of_a_page(page, brief):
    for command in commands(page):
        print(shlex.join(command))  # so that a failure says where
        RUN[command[0]](command)


def test_commands_are_found():
    text = """Say `chefs fit` or `chefs prior --draws 3`.
```
chefs fit data.csv \\
    --out run  # a comment
run   the file of a run: don't
make demo
```
```python
chefs.sample()
```
```sh
$ pip install '.[plots]'
```
"""
    assert [shlex.join(command) for command in commands(text)] == [
        "chefs fit data.csv --out run",
        "make demo",
        "pip install '.[plots]'",
        "chefs prior --draws 3",
    ]
    assert quickened(["chefs", "reproduce", "prior"]) == ["chefs", "reproduce", "prior"]
    assert quickened(["chefs", "demo"]) == ["chefs", "demo", "--minutes", "0.02"]
    assert {len(commands(page)) > 10 for page in PAGES if page.name == "README.md"} == {True}
    assert {command[1] for command in commands(ROOT / "README.md") if command[0] == "chefs"} == {
        "prior", "data", "fit", "resume", "impute", "fantasy", "score", "report", "search", "reproduce", "demo"
    }  # fmt: skip


@pytest.mark.parametrize(
    "line", ["chefs fit data.csv --out run --no-such-option", "chefs cook", "make nothing", "pip install '.[nothing]'"]
)
def test_wrong_commands_are_noticed(line, brief):
    (command,) = commands(f"```\n{line}\n```\n")
    with pytest.raises((AssertionError, subprocess.CalledProcessError)):
        RUN[command[0]](command)
