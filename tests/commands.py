"""The command line in this process."""

import pytest

from chefs.cli import main

SHORT = ("--draws", 3, "--warmup", 2, "--chains", 1, "--start", "empty", "--no-report")
TABLE = "dose,effect\n1,2\n2,\n3,0.5\n0,1e1\n"


def left(*arguments):
    """The exit code of `chefs`."""
    with pytest.raises(SystemExit) as leaving:
        main([str(argument) for argument in arguments])
    return leaving.value.code


def contents(folder):
    """All that is in a folder: names, and what files hold."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
