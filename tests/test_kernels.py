"""What a user may tell a kernel: every wrong or contradictory wish is refused, and every right one is kept."""

import math

import numpy as np
import pytest

import chefs
from chefs.kernels import Hyperpriors, Moves
from tests.helpers import edge_set, refused
from tests.runs import OBSERVED, PRIOR, likelihood_kernel, prior_kernel

KINDS = {"prior": prior_kernel, "likelihood": likelihood_kernel}
FREE = math.nan
WEIGHT_OF = {
    "birth": "birth",
    "death": "birth",
    "deepen": "depth",
    "flatten": "depth",
    "edge": "edge",
    "order": "order",
}
START = chefs.Dag([[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0]], [0.0, 0.3, 0.2, 0.8], n_observed=3)


@pytest.fixture(params=KINDS)
def kernel_of(request):
    return KINDS[request.param]


def start_of(kernel, seed=0):
    """The graph that a kernel begins with."""
    drawn = kernel.draw(kernel.init(np.random.default_rng(seed)))
    edges = np.zeros((drawn.order.size, drawn.order.size), dtype=bool)
    edges[drawn.parent, drawn.child] = True
    return chefs.Dag(edges, drawn.order, kernel.n_observed)


class TestHyperpriors:
    @pytest.mark.parametrize("name", ["alpha", "gamma", "phi"])
    @pytest.mark.parametrize(
        "wrong", [3, "ab", (1,), (1, 2, 3), (0, 1), (1, -1), (1, math.inf), (math.nan, 1), (1, "a"), ()], ids=str
    )
    def test_refused(self, name, wrong):
        with refused("hyperprior", name):
            Hyperpriors(**{name: wrong})

    def test_none_keeps_one_fixed(self):
        assert Hyperpriors(None, (2, 3), None).as_array().tolist() == [[0, 0], [2, 3], [0, 0]]

    def test_fixed_ones_stay_and_others_move(self):
        kernel = prior_kernel(hyperpriors=Hyperpriors(alpha=None, gamma=(2, 2), phi=None))
        trace = chefs.sample(np.random.default_rng(0), kernel, draws=20, chains=1, progress=False)
        assert set(trace.scalar("alpha")) == {PRIOR.alpha}
        assert set(trace.scalar("phi")) == {PRIOR.phi}
        assert len(set(trace.scalar("gamma"))) == 20


class TestMoves:
    @pytest.mark.parametrize("name", ["edge", "birth", "order", "depth"])
    @pytest.mark.parametrize("wrong", ["a", -0.1, math.nan, math.inf, None, 1j, [0.5]], ids=str)
    def test_refused(self, name, wrong):
        with refused("weight", name):
            Moves(**{name: wrong})

    def test_no_moves(self):
        with refused("moves", "positive"):
            Moves(0, 0, 0, 0)

    @pytest.mark.parametrize("wrong", [{"order_rule": "metropolis"}, {"edge_rule": "uniform"}, {"edge_rule": None}])
    def test_rules(self, wrong):
        with refused(*wrong):
            Moves(**wrong)

    @pytest.mark.parametrize(
        "moves",
        [
            Moves(depth=0),
            Moves(order=0, depth=0),
            Moves(edge=1, birth=0, order=0, depth=0),
            Moves(0.1, 0.2, 0.7, 0.0),
            Moves(1 / 3, 0, 1 / 3, 0),
            Moves(1e-9, 1e9, 0, 0),
            Moves(0, 0, 0, 0.5),
            Moves.paper(),
        ],
    )
    def test_what_is_switched_off_is_never_tried(self, moves):
        kernel = prior_kernel(moves=moves, n_moves=20_000, max_hidden=5)
        rng = np.random.default_rng(0)
        _, info = kernel.step(rng, kernel.init(rng))
        assert info.tally[:, 0].sum() == 20_000
        for name, (made, accepted) in zip(kernel.move_names, info.tally, strict=True):
            if getattr(moves, WEIGHT_OF[name]) == 0:
                assert (made, accepted) == (0, 0), name

    @pytest.mark.parametrize("last", range(4))
    def test_rounding_leaves_no_share_for_what_is_switched_off(self, last):
        rng = np.random.default_rng(last)
        for weights in rng.random((200, 4)):
            weights[last + 1 :] = 0
            assert (Moves(*weights).as_array()[last:4] == 1).all()


class TestWrongTypes:
    @pytest.mark.parametrize("prior", [None, 3, chefs.ChefsProcess().finite(50)], ids=str)
    def test_prior(self, prior):
        with refused("ChefsProcess", type(prior).__name__, error=TypeError):
            chefs.PriorKernel(prior, 2)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"hyperpriors": 3},
            {"hyperpriors": (0.5, 0.5)},
            {"hyperpriors": Hyperpriors},
            {"moves": None},
            {"moves": "edge"},
            {"moves": (0.5, 0.5, 0, 0)},
            {"start": 3},
            {"start": [[0]]},
            {"start": "graph"},
        ],
        ids=str,
    )
    def test_parts(self, kernel_of, wrong):
        with refused(*wrong, error=TypeError):
            kernel_of(**wrong)

    @pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "a", None, math.inf], ids=str)
    def test_n_moves(self, kernel_of, wrong):
        with refused("n_moves"):
            kernel_of(n_moves=wrong)

    @pytest.mark.parametrize("name", ["required", "forbidden"])
    @pytest.mark.parametrize(
        "wrong",
        [(0, 1), 3, None, "ab", [(0,)], [(0, 1, 2)], [(0, 9)], [(-1, 0)], [(0.0, 1)], [("a", "b")], [(True, 0)]],
        ids=str,
    )
    def test_edges(self, kernel_of, name, wrong):
        with refused(name, "(parent, child)"):
            kernel_of(**{name: wrong})

    @pytest.mark.parametrize("name", ["required", "forbidden"])
    def test_edge_to_itself(self, kernel_of, name):
        with refused(name, "node 1", "own parent"):
            kernel_of(**{name: [(1, 1)]})

    @pytest.mark.parametrize(
        "wrong",
        [
            [(0.1, 0.2)],
            "ab",
            3,
            None,
            {2: 0.5},
            {2: "ab"},
            {2: (0.5,)},
            {2: (0.1, 0.2, 0.3)},
            {2: ("a", "b")},
            {2: (None, 0.5)},
            {2: (0.5, 0.5)},
            {2: (0.6, 0.5)},
            {2: (-0.1, 0.5)},
            {2: (0.5, 1.1)},
            {2: (math.nan, 0.5)},
            {"2": (0.1, 0.5)},
            {2.0: (0.1, 0.5)},
            {True: (0.1, 0.5)},
            {9: (0.1, 0.5)},
            {-1: (0.1, 0.5)},
            {0: (0.1, 0.5)},
        ],
        ids=str,
    )
    def test_bounds(self, kernel_of, wrong):
        with refused("bounds"):
            kernel_of(bounds=wrong)

    @pytest.mark.parametrize("wrong", ["a", math.inf, math.nan, 2.5, True, -1, [3]], ids=str)
    def test_max_hidden(self, kernel_of, wrong):
        with refused("max_hidden"):
            kernel_of(max_hidden=wrong)


class TestContradictions:
    def test_required_and_forbidden(self, kernel_of):
        with refused("1→0", "required", "forbidden"):
            kernel_of(required=[(1, 0)], forbidden=[(1, 0)])

    def test_cycle(self):
        for cycle in ([(0, 1), (1, 0)], [(0, 1), (1, 2), (2, 0)]):
            with refused("required", "cycle"):
                chefs.PriorKernel(PRIOR, 3, required=cycle)

    def test_fixed_orders(self, kernel_of):
        with refused("required", "0→1"):
            kernel_of(required=[(0, 1)])
        with refused("required"):
            chefs.PriorKernel(PRIOR, [0.5, 0.5], required=[(0, 1)])
        with refused("required"):  # through a node that is free
            chefs.PriorKernel(PRIOR, [0.3, FREE, 0.5], required=[(0, 1), (1, 2)])

    def test_bounds(self):
        with refused("required", "0→1"):
            chefs.PriorKernel(PRIOR, 2, required=[(0, 1)], bounds={0: (0.1, 0.4), 1: (0.4, 0.9)})

    @pytest.mark.parametrize(
        "limits,words",
        [
            ({"observed": 2}, ["observed nodes"]),
            ({"observed": [0.0, 0.4, FREE]}, ["order"]),
            ({"bounds": {2: (0.6, 0.9)}}, ["bounds"]),
            ({"required": [(2, 0)]}, ["required"]),
            ({"forbidden": [(1, 0)]}, ["forbidden"]),
            ({"max_hidden": 0}, ["max_hidden", "1 hidden"]),
        ],
        ids=str,
    )
    def test_start(self, limits, words):
        with refused("start", *words):
            chefs.PriorKernel(PRIOR, **{"observed": OBSERVED, "start": START, **limits})


class TestWishesKept:
    def test_start(self, kernel_of):
        assert start_of(kernel_of(start=START)) == START

    def test_start_without_wishes(self, kernel_of):
        dag = start_of(kernel_of())
        assert (dag.n_hidden, dag.n_edges) == (0, 0)
        assert dag.order[:2].tolist() == OBSERVED[:2]

    def test_required_edges_and_bounds_from_the_first_graph_to_the_last(self, kernel_of):
        wishes = {"required": [(2, 0), (1, 0)], "forbidden": [(2, 1)], "bounds": {2: (0.2, 0.4)}, "max_hidden": 2}
        kernel = kernel_of(**wishes)
        rng = np.random.default_rng(1)
        state = kernel.init(rng)
        for _ in range(200):
            drawn = kernel.draw(state)
            edges = set(zip(drawn.parent.tolist(), drawn.child.tolist(), strict=True))
            assert {(2, 0), (1, 0)} <= edges
            assert (2, 1) not in edges
            assert 0.2 <= drawn.order[2] <= 0.4
            assert drawn.order[:2].tolist() == OBSERVED[:2]
            assert drawn.order.size <= 5
            state, _ = kernel.step(rng, state)

    @pytest.mark.parametrize("seed", range(20))
    def test_required_edges_in_a_chain_of_free_nodes(self, seed):
        required = [(i + 1, i) for i in range(5)]
        dag = start_of(chefs.PriorKernel(PRIOR, 6, required=required, bounds={5: (0.0, 0.3), 2: (0.1, 0.2)}), seed)
        assert edge_set(dag) == set(required)
        assert 0.1 <= dag.order[2] <= 0.2
        assert dag.order[5] <= 0.3

    def test_numpy_numbers(self):
        kernel = chefs.PriorKernel(
            PRIOR, 3, required=np.array([[2, 0]]), bounds={np.int64(1): np.array([0.1, 0.2])}, max_hidden=np.int64(4)
        )
        assert edge_set(start_of(kernel)) == {(2, 0)}
        assert 0.1 <= start_of(kernel).order[1] <= 0.2

    def test_a_bound_on_hidden_nodes_beyond_any_number_is_none(self):
        assert start_of(prior_kernel(max_hidden=10**30)).n_hidden == 0
