"""The command `chefs`: puts its commands together, and gives every error one sentence and an exit code."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated, Any, NoReturn

import typer

from chefs import cli_data, cli_fit, cli_network, cli_prior, cli_report, cli_reproduce, cli_search
from chefs.cli_shared import StoppedError, print_help

# typer brings its own click or uses the one installed, by version: this is the UsageError of the right one.
UsageError: Any = typer.BadParameter.__bases__[0]
INTERRUPTED = 130  # what newer versions of typer make of Ctrl-C
WRONG_CALL = (ValueError, FileExistsError, FileNotFoundError, NotADirectoryError, IsADirectoryError)

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Random DAGs with hidden nodes: the Indian Chefs Process.",
)
for command in (
    cli_fit.demo,
    cli_prior.prior,
    cli_fit.fit,
    cli_fit.resume,
    cli_network.fantasy,
    cli_network.impute,
    cli_network.score,
    cli_report.report,
    cli_search.search,
    cli_data.data,
):
    app.command()(command)
app.add_typer(cli_reproduce.reproduce, name="reproduce")


def main(arguments: list[str] | None = None) -> None:
    """The console entry point: exit code 2 and one sentence for bad input, 1 for a run that fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # they were matched before
        warnings.showwarning = _print_warning
        code = _called(arguments)
    if code == INTERRUPTED:
        _leave(1, "interrupted")
    sys.exit(code if isinstance(code, int) else 0)


def _called(arguments: list[str] | None) -> Any:
    try:
        return app(arguments, prog_name="chefs", standalone_mode=False)
    except UsageError as error:
        where = error.ctx.command_path if error.ctx else "chefs"
        _leave(2, f"{error.format_message().rstrip('.')}: see {where} --help")
    except WRONG_CALL as error:
        _leave(2, str(error))
    except BrokenPipeError:
        # Whoever read our output has gone; without this, flushing at exit would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ImportError, OSError, MemoryError) as error:
        _leave(1, str(error) or "out of memory: choose a smaller gamma or fewer draws")
    except RuntimeError as error:
        from chefs.storage import RunError

        if not isinstance(error, RunError):
            raise
        _leave(1, str(error))
    except StoppedError as error:
        _leave(1, str(error))
    except (KeyboardInterrupt, typer.Abort):
        _leave(1, "interrupted")


def _leave(code: int, sentence: str) -> NoReturn:
    print(f"chefs: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(code)


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"chefs: {' '.join(str(message).split())}", file=sys.stderr)


def _print_version(wanted: bool) -> None:
    if wanted:
        from chefs import __version__

        print(f"chefs {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    print_help(context)
