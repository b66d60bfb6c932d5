"""Benchmarks: figures that the README and the docs may state. What several of them need."""

import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("chefs", "numpy", "scipy", "numba", "joblib", "arviz", "scikit-learn")


def best_of(function, repeats=5):
    """Seconds of the quickest of several calls: the one that was disturbed least."""
    return min(seconds(function) for _ in range(repeats))


def seconds(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def one_thread(name):
    """Run a benchmark again with one thread of BLAS, which is set before NumPy is loaded, unless this is that run."""
    if os.environ.get("OMP_NUM_THREADS") != "1":
        again = [sys.executable, "-m", f"benchmarks.{name}"]
        sys.exit(subprocess.call(again, env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}))


def about(name, seed):
    """What it takes to make the same figures again."""
    return {
        "command": f"python -m benchmarks.{name}",
        "seed": seed,
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "versions": {package: version(package) for package in PACKAGES},
    }


def table(headings, rows):
    """Rows as a Markdown table; numbers with three digits, large ones with their thousands apart."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value):
    if isinstance(value, float) and abs(value) < 1000:
        return f"{value:.3g}"
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)


def report(name, facts, sections):
    """Print the tables, and write them and every number in them to benchmarks/results.

    Args:
        name: Of the benchmark.
        facts: From `about`.
        sections: (heading, sentence, table's headings, its rows) of each part.
    """
    versions = ", ".join(f"{package} {number}" for package, number in facts["versions"].items())
    text = f"# {name}\n\n`{facts['command']}`, seed {facts['seed']}, {facts['cpus']} CPUs ({facts['machine']}), "
    text += f"Python {facts['python']}, {versions}.\n"
    numbers = {}
    for heading, sentence, headings, rows in sections:
        text += f"\n## {heading}\n\n{sentence}\n\n{table(headings, rows)}\n"
        numbers[heading] = [dict(zip(headings, row, strict=True)) for row in rows]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    content = json.dumps({"about": facts, **numbers}, indent=1, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(content + "\n", encoding="utf-8")
    print(text)


def curve(name, x_label, y_label, lines):
    """A picture with logarithmic axes; `lines` are (label, x, y)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.4), layout="constrained")
    ax = figure.subplots()
    for label, x, y in lines:
        ax.plot(x, y, "o-", ms=4, label=label)
    ax.set(xscale="log", yscale="log", xlabel=x_label, ylabel=y_label)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8)
    figure.savefig(RESULTS / name, dpi=150)
