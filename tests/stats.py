"""Goodness of fit for the laws: every comparison yields a p-value, and one failure rate judges them all.

Seeds are fixed, so a test passes or fails for ever. The rate says how often a *correct* program would have failed one
comparison had its seed been drawn afresh: one in a hundred thousand. A negative control must fall below the same rate.
"""

import numpy as np
from scipy import stats

FAILURE_RATE = 1e-5


def pmf_p_value(values, pmf, least=10.0):
    """χ² of integers against an exact distribution on 0, 1, 2, …; the tail is one more cell."""
    counts = np.bincount(np.asarray(values), minlength=len(pmf)).astype(float)
    expected = np.zeros(counts.size)
    expected[: len(pmf)] = pmf
    expected = np.append(expected, max(0.0, 1.0 - expected.sum())) * len(values)
    return _chi2(np.append(counts, 0.0), expected, least)


def cells_p_value(counts, probabilities, least=10.0):
    """χ² of counts of named cells; what the probabilities leave over is one more cell with what the counts leave."""
    counts, expected = np.asarray(counts, float), np.asarray(probabilities, float) * np.sum(counts)
    order = np.argsort(-expected)
    return _chi2(counts[order], expected[order], least)


def _chi2(counts, expected, least):
    """Neighbouring cells are pooled until each expects at least `least`."""
    pooled, seen, e, c = [], [], 0.0, 0.0
    for expect, count in zip(expected, counts, strict=True):
        e, c = e + expect, c + count
        if e >= least:
            pooled.append(e)
            seen.append(c)
            e = c = 0.0
    if pooled:
        pooled[-1] += e
        seen[-1] += c
    assert len(pooled) > 1, "too few cells to compare"
    return stats.chisquare(seen, np.array(pooled) * np.sum(seen) / np.sum(pooled)).pvalue


def same_p_value(a, b):
    """Whether two samples have the same law: χ² on cells for few values, Kolmogorov-Smirnov for many."""
    a, b = np.asarray(a), np.asarray(b)
    both = np.concatenate([a, b])
    if np.issubdtype(both.dtype, np.integer) or np.unique(both).size < 30:
        edges = np.unique(np.quantile(both, np.linspace(0, 1, 31), method="inverted_cdf"))
        table = np.array([np.bincount(np.searchsorted(edges, x), minlength=edges.size + 1) for x in (a, b)])
        table = _merge_rare(table)
        return 1.0 if table.shape[1] < 2 else stats.chi2_contingency(table).pvalue
    return stats.ks_2samp(a, b).pvalue


def _merge_rare(table, least=20):
    merged, column = [], np.zeros(2)
    for cell in table.T:
        column = column + cell
        if column.sum() >= least:
            merged.append(column)
            column = np.zeros(2)
    if merged:
        merged[-1] = merged[-1] + column
    return np.array(merged).T


def kept_p_value(before, after, n_levels=15):
    """Whether pairs cross every level as often upwards as downwards: so they do where what moved them keeps their law.

    Sign tests at quantiles. Pairs that did not move do not blur them, as they do a comparison with fresh draws.
    """
    before, after = np.asarray(before), np.asarray(after)
    both = np.concatenate([before, after])
    levels = np.unique(np.quantile(both, np.arange(1, n_levels + 1) / (n_levels + 1), method="inverted_cdf"))
    if levels[-1] == both.max():
        levels = levels[:-1]  # nothing is above it
    below, then = before[:, None] <= levels, after[:, None] <= levels
    up, down = (below & ~then).sum(axis=0), (then & ~below).sum(axis=0)
    p_values = [stats.binomtest(int(u), int(u + d)).pvalue for u, d in zip(up, down, strict=True) if u + d]
    return min(1.0, len(p_values) * min(p_values)) if p_values else 1.0


def kept_p_values(before, after):
    """`kept_p_value` of every column of two tables: dicts of columns, or lists of rows that are dicts."""
    if isinstance(before, list):
        before, after = ({name: [row[name] for row in table] for name in table[0]} for table in (before, after))
    return {name: kept_p_value(before[name], after[name]) for name in before}


def uniform_p_value(ranks, n_values):
    """Whether ranks 0 … n_values−1 are uniform, as in simulation-based calibration."""
    return cells_p_value(np.bincount(ranks, minlength=n_values), np.full(n_values, 1 / n_values))


def z_p_value(estimate, truth, standard_error):
    """Two-sided p-value of an error measured in standard errors."""
    return float(2 * stats.norm.sf(abs(estimate - truth) / standard_error))


def smallest(p_values):
    """The smallest of several p-values, corrected for how many there are (Bonferroni), and its name."""
    name = min(p_values, key=p_values.get)
    return min(1.0, p_values[name] * len(p_values)), name


def check(p_values):
    """Fail where any comparison is rejected."""
    p, name = smallest(p_values)
    assert p > FAILURE_RATE, f"{name}: p = {p:.2g}; all: { {k: float(f'{v:.2g}') for k, v in p_values.items()} }"


def check_caught(p_values):
    """A negative control: fail where nothing is rejected."""
    p, _ = smallest(p_values)
    assert p < FAILURE_RATE, f"the error was not seen: { {k: float(f'{v:.2g}') for k, v in p_values.items()} }"
