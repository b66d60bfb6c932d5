"""Every prior and every kernel keeps the promises of its protocol."""

import math
import pickle

import numpy as np
import pytest

import chefs
from chefs.buffets import CascadingBuffet, ExtendedBuffet
from chefs.dags import Dags
from chefs.kernels import Kernel
from chefs.network.kernel import NetworkKernel
from chefs.prior import DagPrior
from chefs.tempering import TemperedKernel
from tests.runs import likelihood_kernel, prior_kernel, skewed

PRIORS = {
    "process": chefs.ChefsProcess(1.0, 1.5, 0.7),
    "finite": chefs.ChefsProcess(1.0, 1.5, 0.7).finite(50),
    "buffet": chefs.IndianBuffet(1.0, 1.5),
    "cascading": CascadingBuffet(1.0, 0.9),
    "extended": ExtendedBuffet(1.0, 0.9),
}
DATA = np.random.default_rng(0).normal(size=(6, 2))
DATA[0, 1] = np.nan
KERNELS = {
    "prior": lambda: prior_kernel(),
    "learning hyperparameters": lambda: prior_kernel(hyperpriors=chefs.Hyperpriors((2, 2), (2, 2), (2, 2))),
    "likelihood": lambda: likelihood_kernel(skewed),
    "buffet": lambda: chefs.PriorKernel(chefs.IndianBuffet(1.0, 1.5), 3, n_moves=20),
    "cascading": lambda: chefs.PriorKernel(
        CascadingBuffet(1.0, 0.9), 3, n_moves=20, hyperpriors=chefs.Hyperpriors((5, 5), (5, 5))
    ),
    "extended, likelihood": lambda: chefs.LikelihoodKernel(
        ExtendedBuffet(1.0, 0.9), 3, skewed, n_moves=20, max_hidden=6
    ),
    "tempered": lambda: TemperedKernel.of(likelihood_kernel(skewed), 3),
    "network": lambda: NetworkKernel(chefs.ChefsProcess(), [0.0, math.nan], DATA, max_hidden=4, most_leapfrogs=5),
}


def valid_dag(n_observed, order, parent, child):
    """A `Dag` of arrays that no check has seen: its own checks are run on them."""
    edges = np.zeros((order.size, order.size), dtype=bool)
    edges[parent, child] = True
    assert np.count_nonzero(edges) == parent.size == child.size  # no edge twice
    return chefs.Dag(edges, order, n_observed)


def drawn(kernel, state):
    draw = kernel.draw(state)
    return valid_dag(kernel.n_observed, draw.order, draw.parent, draw.child), draw


def advanced(kernel, rng, state, steps):
    """The draws after each of some more steps."""
    draws = []
    for _ in range(steps):
        state, _ = kernel.step(rng, state)
        draws.append(drawn(kernel, state)[1])
    return state, draws


def assert_same(a, b):
    for x, y in zip(a, b, strict=True):
        for name in ("order", "parent", "child"):
            np.testing.assert_array_equal(getattr(x, name), getattr(y, name))
        for kind in ("scalars", "node", "edge"):
            np.testing.assert_equal(dict(getattr(x, kind)), dict(getattr(y, kind)))


@pytest.mark.parametrize("name", PRIORS)
class TestPriors:
    def test_protocol(self, name):
        assert isinstance(PRIORS[name], DagPrior)

    @pytest.mark.parametrize("observed", [1, 3, [0.0, 0.0], [0.0, math.nan]], ids=str)
    def test_draws_are_valid_and_have_a_density(self, name, observed):
        prior, rng = PRIORS[name], np.random.default_rng(1)
        one, many = prior.sample(rng, observed), prior.sample(rng, observed, size=20)
        assert isinstance(one, chefs.Dag)
        assert isinstance(many, Dags)
        assert len(many) == 20
        assert len(prior.sample(rng, observed, size=0)) == 0
        for dag in (one, *many):
            assert dag.n_observed == (observed if isinstance(observed, int) else len(observed))
            assert valid_dag(dag.n_observed, dag.order.copy(), *np.nonzero(dag.edges)) == dag
            assert math.isfinite(prior.log_prob(dag))

    def test_same_seed_same_draws(self, name):
        def draws():
            rng = np.random.default_rng(2)
            return [PRIORS[name].sample(rng, 3), *PRIORS[name].sample(rng, 3, size=20)]

        assert draws() == draws()

    def test_it_is_a_value(self, name):
        prior = PRIORS[name]
        again = pickle.loads(pickle.dumps(prior))
        assert again == prior
        assert hash(again) == hash(prior)

    @pytest.mark.parametrize("wrong", [None, 3, np.eye(2), "dag"], ids=str)
    def test_what_has_no_density(self, name, wrong):
        with pytest.raises(TypeError, match="dag must be"):
            PRIORS[name].log_prob(wrong)


@pytest.mark.parametrize("name", KERNELS)
class TestKernels:
    def test_protocol(self, name):
        kernel = KERNELS[name]()
        assert isinstance(kernel, Kernel)
        assert kernel.n_observed >= 1
        assert len(set(kernel.move_names)) == len(kernel.move_names)
        assert getattr(kernel, "prefer", "processes") in ("threads", "processes")

    def test_steps_are_counted_and_draws_are_valid(self, name):
        kernel, rng = KERNELS[name](), np.random.default_rng(3)
        state = kernel.init(rng)
        total = np.zeros((len(kernel.move_names), 2), dtype=np.int64)
        for _ in range(20):
            dag, draw = drawn(kernel, state)
            assert all(math.isfinite(value) for value in draw.scalars.values())
            assert all(values.shape[0] == dag.n_nodes for values in draw.node.values())
            assert all(values.shape[0] == dag.n_edges for values in draw.edge.values())
            state, info = kernel.step(rng, state)
            assert info.tally.shape == total.shape
            assert info.tally.dtype.kind == "i"
            assert (info.tally[:, 1] >= 0).all() and (info.tally[:, 1] <= info.tally[:, 0]).all()
            total += info.tally
        assert total.sum() > 0

    def test_drawing_does_not_disturb_the_chain(self, name):
        kernel, rng = KERNELS[name](), np.random.default_rng(4)
        state, _ = advanced(kernel, rng, kernel.init(rng), 3)
        before = pickle.dumps((state, rng))
        assert_same([kernel.draw(state)], [kernel.draw(state)])
        assert pickle.dumps((state, rng)) == before

    def test_same_seed_same_draws(self, name):
        def draws():
            kernel, rng = KERNELS[name](), np.random.default_rng(5)
            return advanced(kernel, rng, kernel.init(rng), 10)[1]

        assert_same(draws(), draws())

    @pytest.mark.parametrize("frozen", [False, True])
    def test_it_goes_on_from_a_pickle(self, name, frozen):
        kernel, rng = KERNELS[name](), np.random.default_rng(6)
        state, _ = advanced(kernel, rng, kernel.init(rng), 5)
        if frozen:
            state = getattr(kernel, "freeze", lambda state: state)(state)
        stored = pickle.dumps((state, rng))
        _, expected = advanced(kernel, rng, state, 5)
        state, rng = pickle.loads(stored)
        _, found = advanced(pickle.loads(pickle.dumps(kernel)), rng, state, 5)
        assert_same(expected, found)

    def test_two_kernels_are_equal_only_where_they_are_one(self, name):
        kernel, other = KERNELS[name](), KERNELS[name]()
        assert kernel == kernel
        assert kernel != other
        assert len({kernel, kernel, other}) == 2
