"""The laws of the chain under the prior: it leaves the prior invariant and reaches it, move by move."""

import numpy as np
import pytest

from chefs import ChefsProcess, Hyperpriors, Moves
from chefs._core import propose
from chefs._core.state import N_ACTIVE
from tests.laws.graphs import OBSERVED, empty_graphs, evolve, state_of, statistics
from tests.mutants import mutant
from tests.stats import check, check_caught, kept_p_values, pmf_p_value, same_p_value

PRIOR = ChefsProcess(alpha=1.3, gamma=1.2, phi=0.8)
cases = pytest.mark.parametrize("observed", OBSERVED.values(), ids=OBSERVED)


def invariance(observed, moves, seed, run=propose.run, size=4_000, n_moves=100, prior=PRIOR):
    """Start at exact draws, make moves: what comes out must be exact draws again."""
    rng = np.random.default_rng(seed)
    start = prior.sample(rng, observed, size=size)
    moved = evolve(rng, start, prior, observed, moves.as_array(), n_moves, run)
    p_values = kept_p_values(statistics(start), statistics(moved))
    return p_values | {"exact nodes": pmf_p_value(moved.n_nodes, prior.n_active_pmf(observed))}


def arrival(observed, moves, seed, run=propose.run, size=1_500, n_moves=4_000):
    """Start at empty graphs, make many moves: what comes out must be exact draws."""
    rng = np.random.default_rng(seed)
    moved = evolve(rng, empty_graphs(rng, observed, size), PRIOR, observed, moves.as_array(), n_moves, run)
    got, exact = statistics(moved), statistics(PRIOR.sample(rng, observed, size=40_000))
    p_values = {name: same_p_value(exact[name], got[name]) for name in exact}
    return p_values | {"exact nodes": pmf_p_value(got["nodes"], PRIOR.n_active_pmf(observed))}


@cases
def test_chain_keeps_the_prior(observed):
    check(invariance(observed, Moves(), seed=20))


@cases
def test_paper_moves_keep_the_prior(observed):
    check(invariance(observed, Moves.paper(), seed=21))


@pytest.mark.parametrize(
    "moves",
    [
        Moves(1, 0, 0, 0),
        Moves(1, 0, 0, 0, edge_rule="gibbs"),
        Moves(0, 1, 0, 0),
        Moves(0, 0, 1, 0),
        Moves(0, 0, 1, 0, order_rule="uniform"),
        Moves(0, 0, 0, 1),
    ],
    ids=["edge", "edge gibbs", "birth and death", "order", "order uniform", "depth"],
)
def test_each_move_alone_keeps_the_prior(moves):
    check(invariance(OBSERVED["mixed"], moves, seed=22, n_moves=30))


@cases
def test_chain_reaches_the_prior_from_an_empty_graph(observed):
    check(arrival(observed, Moves(), seed=23))


@pytest.mark.parametrize(
    "moves",
    [Moves(depth=0), Moves(order=0), Moves(order_rule="uniform"), Moves(edge_rule="gibbs"), Moves.paper()],
    ids=["no depth", "no order", "uniform order", "gibbs edges", "paper"],
)
def test_chain_reaches_the_prior_with_a_move_switched_off(moves):
    """Observed orders are fixed here: without order moves free ones would stay where they are."""
    check(arrival(OBSERVED["fixed"], moves, seed=24))


def test_chain_reaches_the_prior_without_births():
    """An observed node at the top gives edges for hidden nodes to be born into: deepening alone reaches everything."""
    check(arrival(OBSERVED["fixed"], Moves(birth=0, depth=0.4), seed=30, size=2_000, n_moves=20_000))


def test_a_chain_that_has_not_run_is_told_from_the_prior():
    check_caught(arrival(OBSERVED["fixed"], Moves(), seed=25, n_moves=20))


# Hyperparameters ----------------------------------------------------------------------------------------------------

LIGHT = Hyperpriors(alpha=(5.0, 10.0), gamma=(5.0, 5.0), phi=(5.0, 5.0))


def draw_hyper(rng):
    """alpha, gamma, phi from LIGHT."""
    return ChefsProcess(1 / rng.gamma(5.0, 1 / 10.0), rng.gamma(5.0, 1 / 5.0), rng.gamma(5.0, 1 / 5.0))


def numbers_of(state):
    """What is compared about (hyperparameters, graph)."""
    (alpha, gamma, phi), n = state.hyper, int(state.size[N_ACTIVE])
    n_edges = int(state.n_parents[:n].sum())
    return {
        "alpha": alpha,
        "gamma": gamma,
        "phi": phi,
        "nodes": n,
        "edges": n_edges,
        "nodes/gamma": n / (1 + gamma),
        "edges·alpha": n_edges * alpha,
    }


def joint_law(move, seed=26, size=3_000, observed=(0.0, 0.4, np.nan)):
    """(hyperparameters, graph) drawn forwards, and what they are after a move."""
    rng, before, after = np.random.default_rng(seed), [], []
    for _ in range(size):
        prior = draw_hyper(rng)
        state = state_of(prior.sample(rng, observed), prior, observed)
        before.append(numbers_of(state))
        after.append(numbers_of(move(rng, state)))
    return kept_p_values(before, after)


def chain(rng, state):
    """Moves and hyperparameters in turn."""
    for _ in range(5):
        state = propose.run(rng, state, Moves().as_array(), LIGHT.as_array(), 20, np.zeros((6, 2), dtype=np.int64))
    return state


def test_hyperparameters_and_graph_keep_their_joint_law():
    check(joint_law(chain))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("hyperprior[GAMMA, 1] + alpha * exposure(", "hyperprior[GAMMA, 1] + exposure("), id="gamma"),
        pytest.param(("return graph - shape * x - rate * math.exp(-x)", "return graph - rate * math.exp(-x)"), id="alpha"),
        pytest.param(("return graph + shape * x - rate * math.exp(x)", "return graph + (shape - 1) * x - rate * math.exp(x)"), id="phi without the Jacobian"),
    ],
)  # fmt: skip
def test_errors_of_the_hyperparameters_are_caught(change):
    wrong = mutant("hyper", change)

    def updates(rng, state):
        for _ in range(5):
            wrong.update_hyper(rng, state, LIGHT.as_array())
        return state

    check_caught(joint_law(updates))


# Negative controls: the misprints of the paper put back in, and other single errors ----------------------------------

BIRTH = "width * (n_above + 1) * n_active / ((n_orphans + 1) * (n_active + 1))"
CANDIDATE = "(k >= state.size[N_OBSERVED] and state.n_children[k] - present == 0)"
ERRORS = {
    # of the paper
    "birth and death without K⁺ + 1": (BIRTH, "width * (n_above + 1) * n_active / (n_orphans + 1)"),
    "only non-singletons are candidates": (CANDIDATE, "(k >= state.size[N_OBSERVED] and state.n_children[k] <= 1)"),
    # of ours, had we made them
    "order without jumps": ("level += log_jump(state, i, c, other, state.n_below[other] - (state.order[other] > state.order[i]))", "level += 0.0"),
    "depth without the width": ("n_active * n_parents * width / (n_hidden + 1)", "n_active * n_parents / (n_hidden + 1)"),
    "edges without their odds": ("return Proposal(EDGE, i, k, 0.0, -odds if present else odds)", "return Proposal(EDGE, i, k, 0.0, odds)"),
}  # fmt: skip
MORE_ERRORS = {
    # of the paper
    "1/K⁺! with the right ratio": (BIRTH, BIRTH.replace("(n_active + 1))", "(n_active + 1) ** 2)")),
    "intervals above counted as K⁺ − i + 1 + 1": (BIRTH, BIRTH.replace("(n_above + 1)", "(n_above + 2)")),
    # of ours, had we made them
    "K*_i forgotten": (BIRTH, "width * (n_above + 1) * n_active / (n_active + 1)"),
    "order with a wrong slope": ("slope = alpha * gamma / (alpha + c)\n", "slope = gamma / (alpha + c)\n"),
    "depth without the number of parents": ("n_active * n_parents * width / (n_hidden + 1)", "n_active * width / (n_hidden + 1)"),
}  # fmt: skip


LOUD = ChefsProcess(2.5, 1.6, 3.0)  # where every term of the ratios matters
YULE = ChefsProcess(20.0, 2.5, 3.0)  # where births are often accepted with certainty, so that deaths are not


@pytest.mark.parametrize("name", [*ERRORS, *(pytest.param(name, marks=pytest.mark.evidence) for name in MORE_ERRORS)])
def test_errors_of_the_chain_are_caught(name):
    run = mutant("propose", (ERRORS | MORE_ERRORS)[name]).run
    size = 4_000 if name in ERRORS else 20_000
    check_caught(invariance(OBSERVED["mixed"], Moves(), 27, run, size, n_moves=300, prior=LOUD))


def test_a_death_that_does_not_merge_its_interval_is_caught():
    whole, part = (
        "log_birth_factor(high - low, n_above, n_orphans - 1",
        "log_birth_factor(high - state.order[k], n_above, n_orphans - 1",
    )
    run = mutant("propose", (whole, part)).run
    check_caught(invariance([0.0], Moves(), 28, run, n_moves=300, prior=YULE))


def test_observed_singletons_left_out_as_candidates_are_caught():
    """The chain would still keep the prior, but never reach it."""
    run = mutant("propose", (CANDIDATE, "(state.n_children[k] - present == 0)")).run
    check_caught(arrival(OBSERVED["fixed"], Moves(), 29, run))


@pytest.mark.parametrize("observed, prior", [(OBSERVED["mixed"], LOUD), ([0.0], YULE)], ids=["loud", "yule"])
def test_the_right_chain_passes_where_the_wrong_ones_are_caught(observed, prior):
    check(invariance(observed, Moves(), 27, n_moves=300, prior=prior))
