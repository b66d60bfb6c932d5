"""The laws of the belief network: every move, and all of them together, leave the joint law of everything as it is."""

import functools
import math

import numpy as np
import pytest
from scipy import stats

from chefs import CascadingBuffet, ChefsProcess, Dag, ExtendedBuffet, IndianBuffet
from chefs._core import ancestral, births, hamiltonian, hyper, joint, learn, network, paper
from chefs._core.network import NEWBORN_LOG_MASS, NEWBORN_SPREAD, NetworkState, gram_of, log_marginal, rows_of_parents
from chefs._core.state import N_ACTIVE
from chefs.network.kernel import MOVES as OURS
from chefs.network.kernel import WITH_JOINT, NetworkKernel
from chefs.network.start import GradientStart, Start
from tests.laws.graphs import state_of
from tests.laws.joint import CASES, LIGHT, N_POINTS, forward, summary, twice
from tests.mutants import mutant
from tests.stats import check, check_caught, kept_p_values


def invariance(move, case, seed, size=2_000, draw=forward):
    """Joint draws, and what they are after a move: their law must be the same."""
    rng = np.random.default_rng(seed)
    before, after = [], []
    for _ in range(size):
        state = draw(rng, *CASES[case]).state
        before.append(summary(state))
        after.append(summary(move(rng, state)))
    return kept_p_values(before, after)


def edges(rng, state, module=learn):
    module.edge_moves(rng, state, 3)
    return state


def orders(rng, state, module=learn):
    module.order_moves(rng, state, True)
    return state


def uniform_orders(rng, state, module=learn):
    module.order_moves(rng, state, False)
    return state


def births_and_deaths(rng, state, module=learn):
    return module.birth_moves(rng, state, 25)[0]


def weighted_edges(rng, state, module=paper):
    module.weighted_edge_moves(rng, state, 3)
    return state


def weighted_births_and_deaths(rng, state, module=paper):
    return module.weighted_birth_moves(rng, state, 25)[0]


def activations(rng, state, module=paper):
    module.activation_moves(rng, state, 3)
    return state


def precisions(rng, state, module=network):
    module.draw_precisions(rng, state, gram_of(state))
    return state


def trajectories(rng, state, module=hamiltonian):
    state.log_mass[:] = rng.normal(size=state.log_mass.size)  # any that do not depend on the state
    for _ in range(3):
        module.hamiltonian_move(rng, state, 0.25, 4, 0.0)
    return state


def resampling(rng, state, module=ancestral):
    module.resample_points(rng, state, gram_of(state), 3)
    return state


def joint_moves(rng, state, module=joint):
    for _ in range(3):
        module.joint_moves(rng, state)
    return state


def hyperparameters(rng, state, module=hyper):
    assert module.update_hyper(rng, state.graph, LIGHT.as_array()) == 3
    return state


ZERO, MIXED, FREED = CASES
MOVES = [
    edges, orders, births_and_deaths, precisions, trajectories, resampling, joint_moves, hyperparameters,
    weighted_edges, weighted_births_and_deaths, uniform_orders, activations,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
def test_each_move_keeps_the_joint_law(move, case):
    check(invariance(move, case, seed=60))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("preset", [OURS, WITH_JOINT, "paper"], ids=["ours", "with joint", "paper"])
def test_all_moves_together_keep_the_joint_law(preset, case):
    check(invariance(twice(ChefsProcess(), case, preset), case, seed=61))


RIVALS = {"single": IndianBuffet, "cascading": CascadingBuffet, "extended": ExtendedBuffet}
STRUCTURAL = [edges, births_and_deaths, weighted_edges, weighted_births_and_deaths]


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("move", STRUCTURAL, ids=lambda move: move.__name__)
def test_moves_of_the_structure_keep_the_joint_law_under_rival_priors(move, rival):
    check(invariance(move, ZERO, seed=80, draw=functools.partial(forward, family=RIVALS[rival])))


@pytest.mark.parametrize("rival", RIVALS)
def test_all_moves_together_keep_the_joint_law_under_rival_priors(rival):
    draw = functools.partial(forward, family=RIVALS[rival])
    check(invariance(twice(RIVALS[rival](), ZERO, OURS), ZERO, seed=81, draw=draw))


# Negative controls: at least one for each move ----------------------------------------------------------------------------


def test_a_birth_under_the_wrong_prior_is_caught():
    """Units of a cascade born and dying as if every child had but one orphan to lose."""
    wrong = mutant(
        "cascade", ("length * n_active / ((n_orphans + 1) * (n_active + 1))", "length * n_active / (n_active + 1)")
    )
    proposals = mutant("propose", layer_birth=wrong.layer_birth, layer_death=wrong.layer_death)
    names = ("propose_birth", "propose_death")
    module = mutant("learn", **{name: getattr(proposals, name) for name in names})

    def many(rng, state, module):
        return module.birth_moves(rng, state, 300)[0]

    draw = functools.partial(forward, family=CascadingBuffet)
    check(invariance(functools.partial(many, module=learn), ZERO, seed=82, draw=draw))
    check_caught(invariance(functools.partial(many, module=module), ZERO, seed=82, size=6_000, draw=draw))


def long_trajectories(rng, state, module):
    for _ in range(7):
        module.hamiltonian_move(rng, state, 0.25, 20, 0.0)
    return state


def many_joint_moves(rng, state, module):
    for _ in range(10):
        module.joint_moves(rng, state)
    return state


def with_births(*changes):
    """Blocks of births with changes to them."""
    wrong = mutant("births", *changes)
    return mutant("learn", try_birth=wrong.try_birth, try_death=wrong.try_death)


def with_orders(*changes):
    return mutant("learn", propose_order=mutant("propose", *changes).propose_order)


JACOBIAN = "return priors + 2.0 * (math.log(new_rho) - math.log(rho))"
RHO_PRIORS = (" + log_rho_prior(new_rho) - log_rho_prior(rho)\n", "\n")
WRONG = {
    "edges without their likelihood": (edges, ZERO, lambda: mutant("learn", ("proposal.log_ratio + new - current[i]", "proposal.log_ratio"))),
    "orders between any two nodes alike": (orders, FREED, lambda: with_orders(("weights[piece] = math.exp(weights[piece] - heaviest)", "weights[piece] = 1.0"))),
    "uniform orders that are always accepted": (uniform_orders, FREED, lambda: mutant("learn", ("(gibbs or math.log(1.0 - rng.random()) < proposal.log_ratio)", "True"))),
    "births without the prior of the child's precision": (births_and_deaths, ZERO, lambda: with_births(RHO_PRIORS)),
    "precisions with half their shape": (precisions, ZERO, lambda: mutant("network", ("rng.standard_gamma(RHO_SHAPE + 0.5 * gram.n_points[i])", "rng.standard_gamma(RHO_SHAPE + 0.25 * gram.n_points[i])"), compiled=False)),
    "trajectories without the Jacobian of log ρ": (trajectories, ZERO, lambda: mutant("hamiltonian", ("value += shape *", "value += (shape - 1) *"))),
    "trajectories whose masses follow the state": (long_trajectories, ZERO, lambda: mutant("hamiltonian", ("state.log_mass[:n] + MASS_SPREAD * rng.standard_normal(n)", "start.log_mass"))),
    "resampling with twice the precision": (resampling, ZERO, lambda: mutant("ancestral", ("log_weight[t] -= 0.5 *", "log_weight[t] -= 1.0 *"))),
    "resampling that weighs missing entries": (resampling, MIXED, lambda: mutant("ancestral", ("            if seen:", "            if i < n_observed:"))),
    "joint moves without the Jacobian of log ρ": (joint_moves, ZERO, lambda: mutant("joint", ("log_rho_prior(rho) + math.log(rho)", "log_rho_prior(rho)"), (" - math.log(old_rho)", ""))),
    "stretches without the density of the unit": (many_joint_moves, ZERO, lambda: mutant("joint", (" - log_fit(around.gram, k, rows, rho, rho)", " - log_fit(around.gram, k, rows, rho, state.rho[k])"))),
    "joint moves that forget the children": (many_joint_moves, ZERO, lambda: mutant("joint", ("< log_ratio + children - around.children", "< log_ratio"))),
    "noise with a Jacobian": (joint_moves, ZERO, lambda: mutant("joint", ("u, k, old, rho, 0.0)", "u, k, old, rho, -0.5 * old.size * change)"))),
    "noise around weights from the prior": (joint_moves, ZERO, lambda: mutant("joint", ("weights = draw_weights(rng, around.gram, k, rows, state.rho[k])", "weights = rng.standard_normal(rows.size)"))),
    "new weights without their prior": (joint_moves, FREED, lambda: mutant("joint", ("-change * (weights[which] + 0.5 * change)", "0.0"))),
    "hyperparameters that count observed nodes as hidden": (hyperparameters, ZERO, lambda: mutant("hyper", ("shape = hyperprior[GAMMA, 0] + n_active - state.size[N_OBSERVED]", "shape = hyperprior[GAMMA, 0] + n_active"))),
    "weighted edges without their likelihood": (weighted_edges, ZERO, lambda: mutant("paper", ("odds = proposal.log_ratio + change", "odds = proposal.log_ratio"))),
    "weighted births whose deaths forget the likelihood": (weighted_births_and_deaths, ZERO, lambda: mutant("paper", ("proposal.log_ratio + change:", "proposal.log_ratio + (change if birth else 0.0):"))),
    "activations that are always accepted": (activations, ZERO, lambda: mutant("paper", ("min(current - total, 700.0))) < 1.0:", "min(current - total, 700.0))) < math.inf:"))),
    "activations with twice the precision": (activations, ZERO, lambda: mutant("paper", ("log_weight -= 0.5 *", "log_weight -= 1.0 *"))),
}  # fmt: skip
MORE = {
    "joint moves without the prior of ρ": (joint_moves, ZERO, lambda: mutant("joint", ("log_rho_prior(rho) + math.log(rho) - log_rho_prior(old_rho)", "math.log(rho)"))),
    "stretches that count their points": (joint_moves, ZERO, lambda: mutant("joint", ("return settle(rng, state, around, u, k, old, rho, log_ratio)", "return settle(rng, state, around, u, k, old, rho, log_ratio - 0.5 * old.size * change)"))),
    "births with the Jacobian upside down": (births_and_deaths, ZERO, lambda: with_births((JACOBIAN, JACOBIAN.replace("+ 2.0", "- 2.0")))),
    "births without the density of the proposal": (births_and_deaths, ZERO, lambda: with_births(("out) * out - log_q", "out) * out"))),
    "trajectories that move what is observed": (trajectories, MIXED, lambda: mutant("hamiltonian", ("                row *= state.missing[k, begin : begin + size]", "                pass"))),
}  # fmt: skip


def p_values_of_an_error(name):
    move, case, module = (WRONG | MORE)[name]
    size = {long_trajectories: 4_000, joint_moves: 4_000, many_joint_moves: 10_000}.get(move, 2_000)  # for small errors
    wrong = module()

    def thrice(rng, state):
        for _ in range(3):
            state = move(rng, state, wrong)
        return state

    return invariance(thrice, case, seed=62, size=size)


@pytest.mark.parametrize("name", [*WRONG, *(pytest.param(name, marks=pytest.mark.evidence) for name in MORE)])
def test_errors_of_the_network_are_caught(name):
    check_caught(p_values_of_an_error(name))


def test_what_no_birth_can_make_no_death_undoes():
    """Units with an activation beyond all cells, and with a child so precise that there are too few cells."""
    rng = np.random.default_rng(66)
    for outlier, rho in ((12.0, 1.0), (0.0, 1e6)):
        dag = Dag([[False, False], [True, False]], [0.0, 0.5], 1)
        graph = state_of(dag, ChefsProcess(), [0.0], 1)
        state = NetworkState(
            graph,
            np.zeros((graph.order.size, 50)),
            np.ones(graph.order.size),
            np.zeros((1, 50), bool),
            np.zeros(graph.order.size),
        )
        state.a[1] = rng.normal(size=50)
        state.a[1, 0] += outlier
        state.a[0] = 3.0 / (1.0 + np.exp(-state.a[1])) + rng.normal(size=50) / math.sqrt(rho)
        state.rho[0] = rho
        _, tried, accepted = learn.birth_moves(rng, state, 200)
        assert tried == 200 and accepted == 0


def test_activations_of_a_birth_are_as_good_as_integrated_out():
    """Σ_t log [p(a) p(child | a) / q(a)] is nearly the log integral, whichever a were drawn: a birth hangs on it.

    Within 3 nats of quadrature for 2000 points (a density that is flat between cuts is 5 to 13 below it); scoring what was drawn gives the same number again.
    """
    rng = np.random.default_rng(71)
    for bias, rho, weight, child_rho in ((0.5, 2.0, 0.7, 1.5), (-1.0, 0.1, 1.5, 8.0), (0.2, 0.01, -2.0, 5.0)):
        new = births.unit(bias, rho, weight)
        true = bias + rng.normal(size=2000) / math.sqrt(rho)
        residual = weight * (1.0 / (1.0 + np.exp(-true)) - new.mean) + rng.normal(size=2000) / math.sqrt(child_rho)
        z = np.linspace(-8.0, 8.0, 8001)
        u = 1.0 / (1.0 + np.exp(-bias - z / math.sqrt(rho)))
        each = stats.norm.pdf(z) * np.exp(-0.5 * child_rho * (residual[:, None] - weight * (u - new.mean)) ** 2)
        truth = np.log(np.trapezoid(each, z, axis=1)).sum() + 1000 * math.log(child_rho)
        for _ in range(3):
            a = np.empty(2000)
            drawn = births.activations(rng, new, child_rho, residual, np.ones(2000), a, True)
            assert drawn == pytest.approx(truth, abs=3.0)
            assert births.activations(rng, new, child_rho, residual, np.ones(2000), a, False) == pytest.approx(drawn)


def test_draws_between_cuts_have_the_density_that_is_linear_there():
    """Against its distribution function; draws that are even within each cell are told apart."""
    rng, cuts, log_height = np.random.default_rng(72), np.array([-1.0, 0.5, 1.0, 3.0]), np.log([0.5, 3.0, 0.1, 1.0])
    mass = 0.5 * np.diff(cuts) * (np.exp(log_height[1:]) + np.exp(log_height[:-1]))

    def below(z):
        j = np.clip(np.searchsorted(cuts, z, side="right") - 1, 0, 2)
        low, high = np.exp(log_height[j]), np.exp(log_height[j + 1])
        x, width = z - cuts[j], cuts[j + 1] - cuts[j]
        return (np.concatenate([[0.0], np.cumsum(mass)])[j] + low * x + 0.5 * (high - low) * x**2 / width) / mass.sum()

    drawn = [births.between_cuts(rng, cuts, log_height.copy(), 0.0, True) for _ in range(4000)]
    z, log_q = np.array(drawn).T
    check({"draws": float(stats.kstest(z, below).pvalue)})
    assert np.allclose(np.exp(log_q), np.interp(z, cuts, np.exp(log_height)) / mass.sum())
    cell = rng.choice(3, 4000, p=mass / mass.sum())
    even = cuts[cell] + np.diff(cuts)[cell] * rng.random(4000)
    check_caught({"even draws": float(stats.kstest(even, below).pvalue)})


def what_is_around(module, power):
    """Whether what joint moves carry from one try to the next is what it would be if made anew, and a refused one has changed nothing."""
    rng, accepted = np.random.default_rng(74), set()
    for _ in range(12):
        state = forward(rng, [0.0, 0.0, 0.5], 0.3).state._replace(power=power)
        n = int(state.graph.size[N_ACTIVE])
        u = network.outputs(state)
        for k in range(3, n):
            gram = network.weighted_gram(state, u)
            around, rows = module.Around(gram, module.log_children(state, gram, k)), rows_of_parents(state.graph, k)
            for tried in (module.try_stretch, module.try_noise, module.try_weight) * 3:
                more = (
                    ()
                    if tried is module.try_stretch
                    else (network.draw_weights(rng, around.gram, k, rows, state.rho[k]),)
                )
                before = state.a.copy(), state.rho.copy()
                around, changed = tried(rng, state, around, u, k, rows, *more)
                accepted.add(changed)
                if not changed and not all(map(np.array_equal, before, (state.a, state.rho))):
                    return False
                anew = gram_of(state)
                alike = [
                    np.allclose(u, network.outputs(state)),
                    np.isclose(around.children, module.log_children(state, anew, k)),
                ]
                alike += [np.allclose(a, b) for a, b in zip(around.gram, anew, strict=True)]
                if not all(alike):
                    return False
    assert accepted == {True, False}
    return True


@pytest.mark.parametrize("power", [1.0, 0.4])
def test_joint_moves_leave_nothing_behind(power):
    """Outputs, Gram matrices and the density of the children, after a move that was refused too."""
    assert what_is_around(joint, power)


LEFT_BEHIND = {
    "outputs of what was refused": ("    sigmoid_into(old, u[k + 1])\n    return around, False", "    return around, False"),
    "precisions of what was refused": ("    state.rho[k] = old_rho\n", ""),
    "sums of squares": ("    aa[k] = np.dot(state.a[k], state.a[k])\n", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT_BEHIND)
def test_what_joint_moves_leave_behind_is_caught(name):
    assert not what_is_around(mutant("joint", LEFT_BEHIND[name], compiled=False), 1.0)


def test_masses_are_learned_in_warm_up_and_kept_after_it():
    """Only newborn units have another mass than one that was learned."""
    rng = np.random.default_rng(68)
    start = GradientStart(n_hidden=4, n_steps=20)
    kernel = NetworkKernel(ChefsProcess(), [0.0, 0.0], rng.normal(size=(60, 2)), start=start, n_births=20)
    chain = kernel.init(rng)
    begun = chain.network.log_mass[2:6].copy()
    for _ in range(20):
        chain, _ = kernel.step(rng, chain)
    assert not np.isin(begun, chain.network.log_mass).any()
    chain = kernel.freeze(chain)
    kept = set(chain.network.log_mass[: chain.network.graph.size[N_ACTIVE]])
    newborn = []
    for _ in range(400):
        chain, _ = kernel.step(rng, chain)
        masses = chain.network.log_mass[: chain.network.graph.size[N_ACTIVE]]
        newborn += [mass for mass in masses if mass not in kept]
        kept.update(masses)
    assert len(newborn) > 50
    check({"masses of newborn units": stats.kstest(newborn, "norm", args=(NEWBORN_LOG_MASS, NEWBORN_SPREAD)).pvalue})


def test_units_take_their_masses_along_when_others_die():
    """Births and deaths alone: who is still there has its activations, and with them its mass."""
    rng = np.random.default_rng(69)
    start = GradientStart(n_hidden=6, n_steps=1)
    kernel = NetworkKernel(ChefsProcess(), [0.0, 0.0], rng.normal(size=(40, 2)), start=start, moves=("edge",))
    state, n_deaths = kernel.init(rng).network, 0
    for _ in range(100):
        learn.edge_moves(rng, state, 1)  # a unit with one child may die
        n = int(state.graph.size[N_ACTIVE])
        state.log_mass[:n] = rng.normal(size=n)
        before = dict(zip(state.a[2:n, 0], state.log_mass[2:n], strict=True))
        state = learn.birth_moves(rng, state, 40)[0]
        now = int(state.graph.size[N_ACTIVE])
        n_deaths += len(before.keys() - set(state.a[2:now, 0]))
        for a, mass in zip(state.a[2:now, 0], state.log_mass[2:now], strict=True):
            assert mass == before[a] if a in before else mass not in before.values()
    assert n_deaths > 2


def test_nothing_is_resampled_where_nothing_is_hidden():
    rng = np.random.default_rng(72)
    for data, tried in ((np.zeros((5, 2)), 0), (np.array([[0.0, np.nan]] * 5), 5)):
        state = NetworkKernel(ChefsProcess(), [0.0, 0.0], data).init(rng).network
        assert ancestral.resample_points(rng, state, gram_of(state), 3)[0] == tried


def test_every_draw_has_weights_of_its_own():
    """The bias of a lone node over draws, less its mean and over its sd given the precision, is N(0, 1)."""
    check({"noise": noise_of_draws()})


def test_draws_that_share_a_seed_are_caught(monkeypatch):
    generator = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda seed: generator(seed if np.isscalar(seed) else 0))
    check_caught({"noise": noise_of_draws()})


def noise_of_draws():
    data = np.random.default_rng(67).normal(size=(10, 1))
    kernel = NetworkKernel(ChefsProcess(), [0.0], data, max_hidden=0)
    rng = np.random.default_rng(68)
    state, noise = kernel.init(rng), []
    for _ in range(500):
        state, _ = kernel.step(rng, state)
        draw = kernel.draw(state)
        rho = draw.node["precision"][0]
        noise.append((draw.node["bias"][0] - rho * data.sum() / (10 * rho + 1)) * math.sqrt(10 * rho + 1))
    return float(stats.kstest(noise, "norm").pvalue)


def test_draws_of_graphs_that_differ_in_an_edge_have_other_noise():
    """Where nothing but edges moves: the bias of the first node, whose own edges are the same, and that is drawn first."""
    data = np.random.default_rng(69).normal(size=(2, 8))
    biases = []
    for children in ([1, 0, 0], [1, 1, 0]):
        start = Start(Dag([[0] * 3, [0] * 3, children], [0, 0, 0.5], 2), np.concatenate([data, data[:1]]), np.ones(3))
        kernel = NetworkKernel(ChefsProcess(), np.zeros(2), data.T.copy(), start=start, moves=("edge",))
        biases.append(kernel.draw(kernel.init(np.random.default_rng(70))).node["bias"][0])
    assert biases[0] != biases[1]


# The model against brute force -----------------------------------------------------------------------------------------


def test_marginal_likelihood_is_that_of_the_gaussian_it_is():
    """a_i given its parents' outputs is N(0, I/ρ + Xᵀ X): compared with scipy."""
    rng = np.random.default_rng(63)
    for _ in range(50):
        state = forward(rng, [0.0, 0.3], 0.0).state
        n = int(state.graph.size[N_ACTIVE])
        state.rho[:n] = rng.gamma(2.0, 1.0, n)
        gram = gram_of(state)
        for i in range(n):
            rows = rows_of_parents(state.graph, i)
            x = network.outputs(state)[rows]
            truth = stats.multivariate_normal(np.zeros(N_POINTS), np.eye(N_POINTS) / state.rho[i] + x.T @ x)
            ours = log_marginal(gram, i, rows, state.rho[i]) - 0.5 * N_POINTS * math.log(2 * math.pi)
            assert ours == pytest.approx(truth.logpdf(state.a[i]), rel=1e-8, abs=1e-6)


def test_gradient_is_that_of_finite_differences():
    rng = np.random.default_rng(64)
    checked = 0
    while checked < 20:
        state = forward(rng, [0.0, 0.0, 0.5], 0.3).state
        n, d = int(state.graph.size[N_ACTIVE]), 3
        if n < d + 2 or np.abs(state.a[:n]).max() > 20:
            continue
        state.rho[:n] = state.rho[:n].clip(0.1, 5.0)
        slope = hamiltonian.slope_of(state)
        i, t = int(rng.integers(d, n)), int(rng.integers(N_POINTS))
        for array, index, gradient in ((state.a, (i, t), slope.a[i, t]), (None, i, slope.log_rho[i])):
            values = []
            for sign in (1, -1):
                if array is not None:
                    array[index] += sign * 1e-5
                    values.append(hamiltonian.slope_of(state).value)
                    array[index] -= sign * 1e-5
                else:
                    old = state.rho[i]
                    state.rho[i] = old * math.exp(sign * 1e-5)
                    values.append(hamiltonian.slope_of(state).value)
                    state.rho[i] = old
            assert (values[0] - values[1]) / 2e-5 == pytest.approx(gradient, rel=1e-4, abs=1e-4)
        checked += 1
