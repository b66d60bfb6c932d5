"""What the table says, in sentences that are computed from the results."""

from __future__ import annotations

import math

import numpy as np

from chefs import datasets
from chefs.experiments.table import DATASETS, PRIORS, is_starved
from chefs.experiments.table_values import (
    BY_HEART,
    MODELS,
    PAPER,
    PAPER_BASELINE,
    PAPER_DISTANCE,
    Results,
    baseline,
    baselines,
    columns,
    distance,
    in_table,
    ratio,
    score,
    title_of,
    values,
)

AGREE = 1.1  # R-hat of chains that do
UNLIKE = 1.5  # times the paper's baseline, or the inverse: ratios to it then say little


def statements(results: Results) -> list[str]:
    """Who wins where, computed from the results."""
    return [
        *_against_paper(results),
        *_by_heart(results),
        *_unlike_baselines(results),
        *_in_order(results),
        *_unequal_minutes(results),
        *_disagreements(results),
        *_starved(results),
        *_winners(results),
    ]


def _against_paper(results: Results) -> list[str]:
    """Whether the networks are closer to the data than the paper's, on each data set."""
    lines = []
    for model in ("icp", "ecibp", "cibp"):
        printed = dict(zip(datasets.list(), PAPER[model], strict=True))
        found = {part: values(results, part, model, ratio("diagonal")) for part in datasets.list()}
        ours = {part: float(np.mean(list(by_seed.values()))) for part, by_seed in found.items() if by_seed}
        if ours:
            below = [part for part, value in ours.items() if value < printed[part]]
            above = [
                f"{title_of(part)} ({ours[part]:.2f}, paper {printed[part]:.2f})" for part in ours if part not in below
            ]
            line = f"{MODELS[model]}: ratio below the paper's on {len(below)} of {len(ours)} data sets"
            lines.append(line + (f"; not on {', '.join(above)}." if above else "."))
    return lines


def _by_heart(results: Results) -> list[str]:
    """Where the paper's network is closer to the test half than training points drawn again, and where ours is."""
    lines = []
    printed = dict(zip(datasets.list(), PAPER["icp"], strict=True))
    found = {part: values(results, part, BY_HEART, ratio("diagonal")) for part in datasets.list()}
    heart = {part: float(np.mean(list(by_seed.values()))) for part, by_seed in found.items() if by_seed}
    closer = [f"{title_of(p)} ({r:.2f}, paper {printed[p]:.2f})" for p, r in heart.items() if printed[p] < r]
    if closer:
        lines.append(
            f"Training points drawn again have a ratio above that of the paper's ICP on {', '.join(closer)}: there the "
            "paper's is closer than a model would be, by our estimator, that knew its training points by heart."
        )
    pairs = {
        part: over_common_splits({m: values(results, part, m, ratio("diagonal")) for m in ("icp", BY_HEART)})
        for part in heart
    }
    texts = [
        f"{title_of(part)} ({pair['icp']:.2f}, {pair[BY_HEART]:.2f})"
        for part, pair in pairs.items()
        if len(pair) == 2 and pair["icp"] <= pair[BY_HEART]
    ]
    if texts:
        lines.append(f"Our ICP's ratio is no larger than that of training points drawn again on {', '.join(texts)}.")
    return lines


def _unlike_baselines(results: Results) -> list[str]:
    """Where the baseline is far from the paper's, the distances themselves."""
    texts = []
    for part, printed, reached in zip(datasets.list(), PAPER_BASELINE, PAPER_DISTANCE["icp"], strict=True):
        base, ours = baselines(results, part, baseline("diagonal")), values(results, part, "icp", distance("diagonal"))
        if base and ours and not 1 / UNLIKE < np.mean(base) / printed < UNLIKE:
            ours_mean = np.mean(list(ours.values()))
            texts.append(
                f"on {title_of(part)} it is {np.mean(base):.3f} (paper {printed:.3f}), and the ICP's distance "
                f"{ours_mean:.3f} (paper {reached:.3f})"
            )
    if not texts:
        return []
    return [f"Ratios say little where our baseline is not like the paper's: {'; '.join(texts)}."]


def _in_order(results: Results) -> list[str]:
    """Whether ICP ≤ ECIBP ≤ CIBP, over the splits that all three have."""
    holds, fails = [], []
    for part in columns(results):
        found = {model: values(results, part, model, ratio("diagonal")) for model in ("icp", "ecibp", "cibp")}
        means = list(over_common_splits(found).values())
        if len(means) == 3:
            text = f"{title_of(part)} ({', '.join(f'{mean:.2f}' for mean in means)})"
            (holds if means[0] <= means[1] <= means[2] else fails).append(text)
    if not holds and not fails:
        return []
    return [
        "The order ICP ≤ ECIBP ≤ CIBP of ratios, over splits that all three have, "
        f"holds on {', '.join(holds) or 'none'}; it does not on {', '.join(fails) or 'none'}."
    ]


def _unequal_minutes(results: Results) -> list[str]:
    """Where the priors did not have the same time, on the splits that all of them have."""
    texts = []
    for data in DATASETS:
        found = {
            model: {r["seed"]: r["minutes"] for r in results if (r["data"], r["model"]) == (data, model)}
            for model in in_table(results, [data])
            if model in PRIORS
        }
        seeds = common_splits(found) if found else set()
        if any(len({by_seed[seed] for by_seed in found.values()}) > 1 for seed in seeds):
            mean = {model: np.mean([by_seed[seed] for seed in seeds]) for model, by_seed in found.items()}
            texts.append(f"{title_of(data)} ({', '.join(f'{MODELS[m]} {minutes:g}' for m, minutes in mean.items())})")
    return [f"Minutes were not the same for all priors on {'; '.join(texts)}."] if texts else []


def _disagreements(results: Results) -> list[str]:
    """How many fits have chains that disagree, and what that means for the comparison of priors."""
    networks = [result["network"]["rhat"] for result in results if result["model"] in PRIORS]
    apart = [known for known in ([one for one in rhat.values() if one is not None] for rhat in networks) if known]
    n = sum(max(known) > AGREE for known in apart)
    if not n:
        return []
    return [
        f"In {n} of {len(networks)} fits of networks R-hat exceeds {AGREE}: chains stay near where they start. A "
        "fitted start has all edges from any unit to those below it for the ICP, and two layers for the cascades. So a "
        "difference between priors is one between starts as well."
    ]


def _starved(results: Results) -> list[str]:
    """Fits that had less of a processor than they should."""
    names = [f"{r['data']}-{r['model']}-{r['seed']}" for r in results if is_starved(r)]
    return [f"Less of a processor than their minutes, because of other work, had {', '.join(names)}."] if names else []


def _winners(results: Results) -> list[str]:
    """For each data set the best model by every measure, how clearly, and where the ICP stands.

    Models with fewer splits than the ICP are left out, and named, where others have as many.
    """
    measures = (
        ("ratio, diagonal", ratio("diagonal"), 1),
        ("ratio, full", ratio("full"), 1),
        ("mean log-likelihood", score("mean"), -1),
        ("median log-likelihood", score("median"), -1),
    )
    lines = []
    for part in columns(results):
        every, texts = [model for model in in_table(results, [part]) if model != BY_HEART], []
        if not every:
            continue
        n_splits = {model: len(values(results, part, model, ratio("diagonal"))) for model in every}
        as_many = [model for model in every if n_splits[model] >= n_splits.get("icp", 0)]
        models = as_many if len(as_many) > 1 else every
        fewer = ", ".join(MODELS[model] for model in every if model not in models)
        for title, of, sign in measures:
            found = {model: values(results, part, model, of) for model in models}
            known = over_common_splits(found)
            ranked = sorted(known, key=lambda model: sign * known[model])
            if len(ranked) > 1:
                behind = "icp" in known and ranked[0] != "icp"
                place = f", ICP is number {ranked.index('icp') + 1} ({known['icp']:.2f})" if behind else ""
                how = _how_clearly(found, ranked[0], ranked[1])
                texts.append(f"{title}: {MODELS[ranked[0]]} ({known[ranked[0]]:.2f}{how}){place}")
        if texts:
            left_out = f", without {fewer}, which have fewer splits," if fewer else ""
            lines.append(f"{title_of(part)}: best of {len(models)}{left_out} by {'; '.join(texts)}.")
    return lines


def _how_clearly(found: dict[str, dict[int, float]], first: str, second: str) -> str:
    """Whether the best is so by more than two standard errors of the difference over common splits."""
    differences = [found[first][seed] - found[second][seed] for seed in common_splits(found)]
    if len(differences) < 2:
        return ", on one split"
    error = np.std(differences, ddof=1) / math.sqrt(len(differences))
    return "" if abs(np.mean(differences)) > 2 * error else f", not clearly before {MODELS[second]}"


def common_splits(found: dict[str, dict[int, float]]) -> set[int]:
    """The splits that all models have."""
    return set.intersection(*(set(by_seed) for by_seed in found.values()))


def over_common_splits(found: dict[str, dict[int, float]]) -> dict[str, float]:
    """The mean for each model over the splits that all of them have; nothing where there is none such."""
    seeds = common_splits(found)
    means = {model: float(np.mean([by_seed[seed] for seed in seeds])) for model, by_seed in found.items() if seeds}
    return {model: mean for model, mean in means.items() if not math.isnan(mean)}
