"""Sections on what the networks say about data: fantasy against data, and held-out rows."""

from __future__ import annotations

import numpy as np

from chefs.dag import FloatArray
from chefs.network.predictive import fantasies
from chefs.report.chains import figure, section
from chefs.report.chart import Panel, bins, matrix, padded
from chefs.report.held_out import distances, scores
from chefs.report.markup import Markup, joined, table, tag
from chefs.report.run import Run, some_of
from chefs.report.words import listed, with_error

MOST_COLUMNS = 6  # of the scatter matrix
MOST_DOTS = 500  # of a panel with several others around it, 2000 with few
N_FANTASIES = 2000
MIDDLE = (0.002, 0.998)  # the part of data and fantasy that axes are made for


def fantasy_against_data(run: Run) -> Markup:
    """Scatter matrix of the first columns, and the distribution of every column."""
    n = N_FANTASIES if run.data is None else max(200, min(N_FANTASIES, len(run.data)))
    points = run.scale.to_x(fantasies(np.random.default_rng(0), run.trace, n))
    parts: list[Markup] = []
    if run.data is None:
        parts.append(tag("p", f"Without data there is fantasy alone: {run.lacking}.", class_="verdict unknown"))
    if points.shape[1] > 1:
        parts.append(_scatter_matrix(run, points))
    return section("fantasy", "Fantasy against data", *parts, _marginals(run, points))


KEY = joined(tag("span", class_="key data"), " data, ", tag("span", class_="key fantasy"), " fantasy")


def _range(data: FloatArray | None, fantasy: FloatArray) -> tuple[float, float]:
    """An axis for both; a few points far off are left outside rather than making all else small."""
    if data is None:
        return padded(np.quantile(fantasy, MIDDLE))
    seen = data[~np.isnan(data)]
    low, high = np.quantile(seen, MIDDLE)
    return padded(np.clip([low, high, *np.quantile(fantasy, MIDDLE)], 1.5 * low - 0.5 * high, 1.5 * high - 0.5 * low))


def _scatter_matrix(run: Run, points: FloatArray) -> Markup:
    """Data below the diagonal, fantasy above it, the distribution of both on it."""
    m = min(MOST_COLUMNS, points.shape[1])
    most = 2000 if m <= 2 else MOST_DOTS
    data = None if run.data is None else some_of(run.data, most)
    fantasy = some_of(points, most)
    ranges = [_range(None if run.data is None else run.data[:, j], points[:, j]) for j in range(m)]
    size = {2: 330, 3: 250, 4: 200}.get(m, 165)
    rows: list[list[Panel | None]] = []
    for i in range(m):
        row: list[Panel | None] = []
        for j in range(m):
            if i == j:
                panel = _histogram(run, points, j, ranges[j], size, size)
                panel.title(run.names[j])
                row.append(panel)
                continue
            panel = Panel(ranges[j], ranges[i], width=size, height=size, left=34)
            shown, kind = (fantasy, "fantasy") if j > i else (data, "data")
            if shown is not None:
                panel.dots(shown[:, j], shown[:, i], kind)
            row.append(panel)
        rows.append(row)
    first = f"the first {m} columns" if points.shape[1] > m else "all columns"
    n = 0 if run.data is None else len(run.data)
    words = f": {n} rows of data (below the diagonal) and {len(points)} points of fantasy (above it), {first}"
    fewer = f"; at most {most} points a panel" if max(n, len(points)) > most else ""
    described = f"Scatter matrix of {listed(run.names[:m])}: data below the diagonal, fantasy above"
    return figure(
        joined(KEY, words, fewer, "; points far off are left out."),
        tag("div", matrix(rows, described), class_="scroll"),
    )


def _histogram(run: Run, points: FloatArray, j: int, limits: tuple[float, float], width: float, height: float) -> Panel:
    data = None if run.data is None else run.data[:, j][~np.isnan(run.data[:, j])]
    drawn = points[:, j] if data is None else data
    edges = bins(drawn[(drawn >= limits[0]) & (drawn <= limits[1])])
    if edges[1] - edges[0] != 1:  # not one for each whole number
        edges = np.linspace(*limits, len(edges))
    shares = [np.histogram(values, edges)[0] / len(values) for values in (data, points[:, j]) if values is not None]
    panel = Panel(
        limits,
        (0, 1.1 * max(float(share.max()) for share in shares) or 1.0),
        width=width,
        height=height,
        y_ticks=(),
        left=34,
    )
    if data is not None:
        panel.bars(edges, shares[0], "data")
    panel.steps(edges, shares[-1], "fantasy")
    return panel


def _marginals(run: Run, points: FloatArray) -> Markup:
    """Every column by itself."""
    pictures = []
    for j, name in enumerate(run.names):
        data = None if run.data is None else run.data[:, j]
        panel = _histogram(run, points, j, _range(data, points[:, j]), 230, 140)
        pictures.append(figure(joined(tag("b", name), _gap(data, points[:, j])), panel.svg(f"Distribution of {name}")))
    words = (
        " of every column. The gap is the largest difference of the two distribution functions "
        "(0 where they agree, at most 1)."
    )
    return joined(
        tag("h3", "Column by column"),
        tag("div", *pictures, class_="grid small"),
        tag("p", KEY, words, class_="caption"),
    )


def _gap(data: FloatArray | None, fantasy: FloatArray) -> str:
    if data is None:
        return ""
    seen = data[~np.isnan(data)]
    gaps = "" if seen.size == data.size else f", {data.size - seen.size} missing"
    at = np.concatenate([seen, fantasy])
    below = [np.searchsorted(np.sort(values), at, side="right") / values.size for values in (seen, fantasy)]
    return f": gap {np.abs(below[0] - below[1]).max():.2f}{gaps}"


def held_out(run: Run) -> Markup:
    """Log densities of test rows, beside those of other methods."""
    title = "Held-out rows"
    if run.test is None:
        words = "No rows were held out, so nothing is said about rows that the chains have not seen: give a test table."
        return section("held-out", title, tag("p", words, class_="verdict unknown"))
    found = scores(run)
    ours = next(iter(found.logs.values()))
    rows = []
    for name, logs in found.logs.items():
        off = logs - ours
        apart = with_error(float(off.mean()), 2 * _error(off)) if off.any() else "–"
        rows.append([name, with_error(float(logs.mean()), 2 * _error(logs)), apart])
    words = (
        f"Mean log density of {len(ours)} of {found.n_rows} test rows, ± two standard errors; the higher, the better. "
        "Differences are row by row. The mixture has the number of Gaussians of the best BIC; the bandwidth, in "
        "standard deviations, is chosen by cross-validation."
    )
    head = ["", "log density of a row", "difference from the networks"]
    parts = [figure(words, table(head, rows, "numbers")), *(tag("p", note) for note in found.notes)]
    apart = distances(run)
    if isinstance(apart, str):
        parts.append(tag("p", f"The Hellinger distance cannot be had: {apart}."))
    else:
        fantasy, baseline, n = apart
        said = (
            f"of as many points of fantasy {fantasy:.4f} (mean of five sets), of as many training rows {baseline:.4f}"
        )
        ratio = f"ratio {fantasy / baseline:.2f}, where 1 is as good as the data themselves"
        parts.append(tag("p", f"Hellinger distance from {n} test rows: {said}; {ratio}."))
    return section("held-out", title, *parts)


def _error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
