"""One self-contained HTML page about a run: what was run, did it converge, what was found. Needs no matplotlib.

Layers, from the bottom: `markup`; `words`; `chart` and `graph`; `run` and `structures`; `held_out`;
the sections `chains`, `posterior`, `predictive` and `hyperparameters`; `page`; `search`; then this.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from chefs._files import check_new, write_new

if TYPE_CHECKING:
    from chefs.network.estimator import SigmoidNetwork

__all__ = ["write", "write_search"]

REMEDY = (
    "Chains that disagree stay near where they start: take more of them, in a new run. Where they agree but the sample "
    "is small, give them more time: chefs resume, or chefs.resume in Python, continues a run that has a folder."
)


def write(
    source: SigmoidNetwork | str | Path,
    path: str | Path,
    *,
    train: Any = None,
    test: Any = None,
    title: str | None = None,
) -> Path:
    """Write a report on a belief network, or on an architecture search, as one HTML file that opens offline.

    A file that is there is not replaced.

    Args:
        source: A fitted model; the folder that `fit` was given as `checkpoint`, finished or not; or the folder of an
            architecture search.
        path: The file to write, which must not be there yet.
        train: The training table; None for what the folder keeps of it.
        test: Rows that were held out, with the same columns.
        title: A title for the page.

    Returns:
        The path.

    >>> import tempfile
    >>> import numpy as np
    >>> from chefs import SigmoidNetwork
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> model = SigmoidNetwork(draws=10, warmup=5, start="empty", random_state=0, progress=False, n_jobs=1).fit(x)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write(model, Path(folder) / "report.html", train=x)
    ...     page.name, "Not converged" in page.read_text(encoding="utf-8")
    ('report.html', True)
    """
    path = Path(path)
    check_new(path)
    if isinstance(source, str | Path) and (Path(source) / "architectures.json").is_file():
        from chefs.report.search import numbers_in

        return write_search(numbers_in(Path(source)), path, title=title)
    write_new(path, _network_page(source, train, test, title).html().encode())
    return path


def write_search(numbers: dict[str, Any], path: str | Path, *, title: str | None = None) -> Path:
    """Write a report on an architecture search as one HTML file that opens offline.

    Args:
        numbers: What `chefs.experiments.architectures.run` returns, and writes to `architectures.json`.
        path: The file to write, which must not be there yet.
        title: A title for the page.

    Returns:
        The path.
    """
    from chefs.report.search import search_page

    path = Path(path)
    check_new(path)
    write_new(path, search_page(numbers, title).html().encode())
    return path


def _network_page(source: Any, train: Any, test: Any, title: str | None) -> Any:
    from chefs.report import chains, posterior, predictive
    from chefs.report.hyperparameters import hyperparameters
    from chefs.report.page import Page
    from chefs.report.run import Run

    run = Run.of(source, train, test)
    found = chains.watched(run.trace)
    _, said = chains.judged(found)
    folder = Path(source).absolute().name if isinstance(source, str | Path) else ""
    sections = {
        "Run": chains.what_was_run(run),
        "Convergence": chains.does_it_converge(found, [chains.idle_moves(run.trace)], REMEDY),
        "Structures": posterior.structures(run),
        "Fantasy": predictive.fantasy_against_data(run),
        "Held-out rows": predictive.held_out(run),
        "Hyperparameters": hyperparameters(run),
    }
    return Page(
        title or (f"Belief networks: {folder}" if folder else "Belief networks"),
        chains.summary(run, said, posterior.hidden_words(run.trace)),
        sections,
        chains.versions(),
    )
