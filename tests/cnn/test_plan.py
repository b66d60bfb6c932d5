import operator

import networkx
import numpy as np
import pytest

from chefs import ChefsProcess, Dag
from chefs.cnn.plan import Plan, Shape, plan_of, reached
from tests.helpers import refused

PRIOR = ChefsProcess(1.0, 3.0, 5.0)
OBSERVED = [1.0, 0.0]


def some_dags(n, seed=0, prior=PRIOR):
    return list(prior.sample(np.random.default_rng(seed), OBSERVED, size=n))


def shuffled(dag, rng):
    """The same graph with its hidden nodes numbered anew."""
    order = np.concatenate([[0, 1], 2 + rng.permutation(dag.n_hidden)])
    return Dag(dag.edges[np.ix_(order, order)], dag.order[order], 2)


def with_bins(dag):
    """A graph whose nodes know what they are: the input, the output, or a layer of some bin."""
    graph = networkx.DiGraph(list(zip(*np.nonzero(dag.edges), strict=True)))
    kinds = ["input", "output", *(Shape().bin(order) for order in dag.order[2:])]
    graph.add_nodes_from((i, {"kind": kind}) for i, kind in enumerate(kinds))
    return graph


def test_shapes_follow_the_formulas():
    shape = Shape()
    assert [shape.side(b) for b in range(6)] == [28, 20, 14, 10, 7, 5]
    assert [shape.channels(b) for b in range(5)] == [5, 6, 8, 12, 20]
    assert [shape.bin(order) for order in (1.0, 0.81, 0.79, 0.5, 0.21, 0.19, 0.0)] == [0, 0, 1, 2, 3, 4, 4]
    for order in np.random.default_rng(0).random(200):
        b = int(5 * (1 - order))
        assert shape.bin(order) == b
        assert shape.side(b) == round(28 * 2 ** (-b / 2))


def test_plan_of_a_graph_by_hand():
    """3 is not reached by the input; 2 → 4 → output, with an edge from 3 that carries nothing."""
    edges = np.zeros((5, 5), dtype=bool)
    for k, i in ((0, 2), (2, 4), (4, 1), (3, 4), (3, 1), (0, 1)):
        edges[k, i] = True
    plan = plan_of(Dag(edges, [1.0, 0.0, 0.9, 0.7, 0.3], 2), Shape())
    assert plan == Plan(((), (0,), (1,), (0, 2)), (28, 28, 10, 0), (1, 5, 12, 3))
    assert (plan.n_hidden, plan.n_edges, plan.depth, plan.width) == (2, 4, 3, 2)
    assert plan.n_weights == 9 * 5 + 9 * 5 * 12 + (13 + 1) * 3
    assert plan.average_degree == 1.0


def test_plan_without_a_path():
    plan = plan_of(Dag([[0, 0], [0, 0]], OBSERVED, 2), Shape())
    assert plan == Plan(((), ()), (28, 0), (1, 3))
    assert (plan.depth, plan.width, plan.n_weights) == (0, 0, 3)


def test_plan_does_not_depend_on_the_numbers_of_nodes():
    rng = np.random.default_rng(1)
    for dag in some_dags(200, 1):
        assert plan_of(shuffled(dag, rng), Shape()) == plan_of(dag, Shape())


def test_plan_depends_on_orders_through_their_bins_alone():
    """Orders are moved within their bins, as far as edges allow: every node keeps its bin, the plan stays."""
    rng = np.random.default_rng(2)
    n_moved = 0
    for dag in some_dags(200, 2):
        order = dag.order.copy()
        for i in range(2, dag.n_nodes):
            b = Shape().bin(order[i])
            low = max([1 - (b + 1) / 5, *order[dag.edges[i]]])
            high = min([1 - b / 5, *order[dag.edges[:, i]]])
            order[i] = low + (high - low) * rng.uniform(0.01, 0.99)
            n_moved += 1
        assert plan_of(Dag(dag.edges, order, 2), Shape()) == plan_of(dag, Shape())
    assert n_moved > 500


def test_different_networks_have_different_plans():
    """Among graphs of the prior, plans agree exactly where the reached parts are isomorphic with equal bins."""
    dags = [reached(dag) for dag in some_dags(150, 3, ChefsProcess(1.0, 1.2, 5.0))]
    plans, graphs = [plan_of(dag, Shape()) for dag in dags], [with_bins(dag) for dag in dags]
    n_same, n_alike = 0, 0
    for a in range(len(dags)):
        for b in range(a):
            same = networkx.is_isomorphic(graphs[a], graphs[b], node_match=operator.eq)
            assert (plans[a] == plans[b]) == same
            n_same += same
            n_alike += same and dags[a].n_hidden > 0
    assert n_same > 100 and n_alike > 10


def test_depth_and_width_are_those_of_the_graph():
    for dag in some_dags(100, 4):
        plan = plan_of(dag, Shape())
        assert plan.width == dag.width(0, 1)
        assert plan.depth == (reached(dag).depth if dag.width(0, 1) else 0)
        assert all(p < j for j, above in enumerate(plan.parents) for p in above)
        assert all(plan.sides[p] >= plan.sides[j] for j in range(1, len(plan.sides) - 1) for p in plan.parents[j])


def test_seeds_of_plans_are_stable_and_differ():
    plans = {plan_of(dag, Shape()) for dag in some_dags(100, 5)}
    assert len({plan.seed() for plan in plans} | {plan.seed(1) for plan in plans}) == 2 * len(plans)
    assert Plan(((), (0,)), (28, 0), (1, 3)).seed() == 2099211296335502429  # or runs could not be continued


@pytest.mark.parametrize("orders", [[0.0, 1.0], [1.0, 0.5], [0.9, 0.0]])
def test_a_graph_without_input_or_output_is_refused(orders):
    with refused("input at order 1", "output at order 0"):
        plan_of(Dag([[0, 0], [0, 0]], orders, 2), Shape())


def test_wrong_numbers_of_observed_nodes_are_refused():
    with refused("two observed nodes"):
        plan_of(Dag([[0]], [1.0], 1), Shape())
    with refused("two observed nodes"):
        plan_of(Dag(np.zeros((3, 3), bool), [1.0, 0.0, 0.5], 3), Shape())
    with refused("chefs.Dag", error=TypeError):
        plan_of("dag", Shape())


@pytest.mark.parametrize("name", ["image_side", "n_classes", "in_channels", "n_bins", "base_channels"])
def test_shapes_refuse_nonsense(name):
    for value in (-1, 2.5, True, "a"):
        with refused(name, "whole number"):
            Shape(**{name: value})
