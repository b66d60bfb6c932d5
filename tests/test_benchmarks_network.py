"""The NumPy twin of the benchmark does the same work: the same numbers, and moves with the same law."""

import numpy as np
import pytest
from benchmarks import network as bench

from chefs._core.ancestral import resample_points
from chefs._core.hamiltonian import hamiltonian_move, slope_of
from chefs._core.learn import edge_moves
from chefs._core.network import gram_of, log_marginal, rows_of_parents
from chefs._core.products import BLOCK
from tests.stats import FAILURE_RATE, same_p_value


@pytest.fixture(scope="module")
def kernel():
    return bench.kernel_of(np.random.default_rng(3), n_points=150)


def network(kernel, blurred=False):
    """The start; blurred, so that the data leave edges and activations open."""
    state = kernel.init(np.random.default_rng(0)).network
    state.rho[: bench.N_OBSERVED] = 0.05 if blurred else state.rho[: bench.N_OBSERVED]
    return state


def test_the_network_has_the_size_it_should(kernel):
    dag = kernel.start.dag
    assert (dag.n_observed, dag.n_hidden, dag.n_edges) == (bench.N_OBSERVED, bench.N_HIDDEN, bench.N_EDGES)
    assert set(bench.blocks()) == set(bench.TWIN) == set(bench.STILL)


@pytest.mark.parametrize("n_points", [150, 2 * BLOCK, 2 * BLOCK + 90])
def test_gradient_value_and_masses_are_those_of_slope_of(n_points):
    kernel = bench.kernel_of(np.random.default_rng(3), n_points=n_points)
    ours, twin = slope_of(network(kernel)), bench.twin_slope(bench.twin_of(network(kernel)))
    for mine, other in zip(ours, twin, strict=True):
        np.testing.assert_allclose(other, mine, rtol=1e-8, atol=1e-8)
    assert np.abs(ours.a[bench.N_OBSERVED :]).max() > 1


def test_marginal_likelihoods_are_the_same(kernel):
    state = network(kernel)
    twin, gram = bench.twin_of(state), gram_of(state)
    for i in range(len(twin.a)):
        rows = rows_of_parents(state.graph, i)
        mine = log_marginal(gram, i, rows, state.rho[i])
        assert bench.twin_marginal(twin, bench.twin_gram(twin), i, bench.twin_rows(twin, i)) == pytest.approx(mine)


def test_resampling_changes_as_many_points(kernel):
    def ours(n_candidates):
        state = network(kernel, blurred=True)
        return resample_points(rng, state, gram_of(state), n_candidates)[1]

    rng = np.random.default_rng(5)
    twin = [bench.twin_resample(rng, bench.twin_of(network(kernel, blurred=True))) for _ in range(100)]
    assert same_p_value(twin, [ours(bench.N_CANDIDATES) for _ in range(100)]) > FAILURE_RATE
    assert same_p_value(twin, [ours(bench.N_CANDIDATES - 2) for _ in range(100)]) < FAILURE_RATE


def test_flips_of_edges_change_as_many_edges(kernel):
    def twin():
        net = bench.twin_of(network(kernel, blurred=True))
        bench.twin_edges(rng, net)
        return int((net.parents != edges).sum())

    def ours(n_sweeps):
        state = network(kernel, blurred=True)
        edge_moves(rng, state, n_sweeps)
        return int((state.graph.parents[: len(edges), : len(edges)] != edges).sum())

    rng, edges = np.random.default_rng(6), kernel.start.dag.edges.T
    found = [twin() for _ in range(100)]
    assert same_p_value(found, [ours(1) for _ in range(100)]) > FAILURE_RATE
    assert same_p_value(found, [ours(2) for _ in range(100)]) < FAILURE_RATE


def test_trajectories_are_accepted_as_often(kernel):
    rng = np.random.default_rng(7)
    rates = [bench.twin_trajectory(rng, bench.twin_of(network(kernel))) for _ in range(200)]
    ours = [hamiltonian_move(rng, network(kernel), bench.STEP_SIZE, bench.N_LEAPFROGS, 0.0)[1] for _ in range(200)]
    far = [hamiltonian_move(rng, network(kernel), 5 * bench.STEP_SIZE, bench.N_LEAPFROGS, 0.0)[1] for _ in range(200)]
    assert same_p_value(np.array(rates, int), np.array(ours, int)) > FAILURE_RATE
    assert same_p_value(np.array(rates, int), np.array(far, int)) < FAILURE_RATE
