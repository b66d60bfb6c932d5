import sys
import warnings

import networkx
import numpy as np
import pytest

import chefs
from chefs import Dag, Draw, RunError, Trace
from chefs._consensus import match
from chefs.draws import ChainDraws
from tests.helpers import refused
from tests.runs import same_draws


def draw_of(dag, scalars=None):
    """A draw with a parameter for each node and each edge."""
    parent, child = np.nonzero(dag.edges)
    node, edge = {"bias": 10.0 * dag.order}, {"weight": 1.0 + parent + 100.0 * child}
    return Draw(dag.order, parent.astype(np.int32), child.astype(np.int32), scalars or {}, node, edge)


def trace_of(*chains, names=None):
    """A trace of lists of graphs, or of (graph, scalars) pairs."""
    draws = [[draw_of(*item) if isinstance(item, tuple) else draw_of(item) for item in chain] for chain in chains]
    first = chains[0][0]
    n_observed = (first[0] if isinstance(first, tuple) else first).n_observed
    return Trace([ChainDraws.from_draws(n_observed, chain) for chain in draws], names=names)


def graph(n_observed, n_hidden, edges, orders=None):
    n = n_observed + n_hidden
    matrix = np.zeros((n, n), dtype=bool)
    for k, i in edges:
        matrix[k, i] = True
    if orders is None:
        plain = networkx.DiGraph(list(edges))
        plain.add_nodes_from(range(n))
        plain = {node: place for place, node in enumerate(reversed(list(networkx.topological_sort(plain))))}
        orders = [plain[node] / n for node in range(n)]
    return Dag(matrix, orders, n_observed)


def renumbered(rng, dag):
    """The same graph, its hidden nodes in another order, its orders moved without changing their ranking."""
    new = np.concatenate([np.arange(dag.n_observed), dag.n_observed + rng.permutation(dag.n_hidden)])
    ranks = np.argsort(np.argsort(dag.order[new], kind="stable"))
    return Dag(dag.edges[np.ix_(new, new)], np.sort(rng.random(dag.n_nodes))[ranks], dag.n_observed)


@pytest.fixture(scope="module")
def sampled():
    kernel = chefs.PriorKernel(chefs.ChefsProcess(1.0, 1.5, 1.0), observed=[0.0, 0.2, float("nan")])
    return chefs.sample(np.random.default_rng(5), kernel, draws=150, chains=2, n_jobs=1, names=["a", "b", "c"])


@pytest.fixture(scope="module")
def small():
    one, two = graph(2, 0, [(1, 0)]), graph(2, 1, [(2, 0), (2, 1)])
    return trace_of([(one, {"x": 1.0}), (two, {"x": 2.0}), (two, {"x": 3.0})], [(two, {"x": 4.0}), (one, {"x": 5.0})])


class TestPicking:
    def test_one_draw(self, sampled):
        dag = sampled[1, 7]
        chain = sampled.chains[1].dags
        nodes = slice(chain.node_start[7], chain.node_start[8])
        edges = slice(chain.edge_start[7], chain.edge_start[8])
        assert isinstance(dag, Dag)
        np.testing.assert_array_equal(dag.order, chain.order[nodes])
        pairs = sorted(zip(chain.parent[edges].tolist(), chain.child[edges].tolist(), strict=True))
        assert np.argwhere(dag.edges).tolist() == [list(pair) for pair in pairs]
        assert sampled[-1, -143] == dag
        assert sampled[np.int64(1), np.int32(7)] == dag

    def test_every_draw_is_a_valid_graph(self, sampled):
        for dag in sampled:
            assert Dag(dag.edges, dag.order, dag.n_observed) == dag

    @pytest.mark.parametrize(
        "key, chains, draws",
        [
            (0, [0], range(150)),
            (-1, [1], range(150)),
            (slice(1, None), [1], range(150)),
            (np.array([1, 0]), [1, 0], range(150)),
            ((0, slice(None, None, 7)), [0], range(0, 150, 7)),
            ((slice(None), slice(-3, None)), [0, 1], range(147, 150)),
            ((slice(None), np.array([5, 3, 5])), [0, 1], [5, 3, 5]),
            ((0, [2, -1]), [0], [2, 149]),
            ((slice(None), 4), [0, 1], [4]),
            (([True, False], np.arange(150) < 3), [0], [0, 1, 2]),
        ],
    )
    def test_parts(self, sampled, key, chains, draws):
        part = sampled[key]
        assert isinstance(part, Trace)
        assert part.names == sampled.names
        assert part.n_chains == len(chains)
        assert part.stats == [sampled.stats[c] for c in chains]
        assert list(part) == [sampled[c, d] for c in chains for d in draws]
        expected = np.concatenate([sampled.chains[c].scalars["log_prob"][list(draws)] for c in chains])
        np.testing.assert_array_equal(part.scalar("log_prob"), expected)

    def test_parameters_follow_their_graph(self, small):
        part = small[:, [1, 0, 1]]
        for chain in part.chains:
            for d, dag in enumerate(chain.dags):
                nodes = slice(chain.dags.node_start[d], chain.dags.node_start[d + 1])
                edges = slice(chain.dags.edge_start[d], chain.dags.edge_start[d + 1])
                np.testing.assert_array_equal(chain.node["bias"][nodes], draw_of(dag).node["bias"])
                np.testing.assert_array_equal(chain.edge["weight"][edges], draw_of(dag).edge["weight"])

    def test_length_iteration_repr(self, small):
        assert len(small) == 5
        assert small.n_chains == 2
        assert small.n_draws == 2
        assert [dag.n_hidden for dag in small] == [0, 1, 1, 1, 0]
        assert repr(small) == "Trace(2 chains, 5 draws, 2 observed nodes, 0.6 hidden nodes in the mean)"
        assert repr(small[0, :0]) == "Trace(1 chain, 0 draws, 2 observed nodes)"
        alone = graph(1, 0, [])
        assert repr(trace_of([(alone, {})])) == "Trace(1 chain, 1 draw, 1 observed node, 0 hidden nodes in the mean)"
        np.testing.assert_array_equal(small.scalar("x"), [1, 2, 3, 4, 5])
        np.testing.assert_array_equal(small.n_edges, [1, 2, 2, 2, 1])

    def test_what_is_not_there(self, small):
        with refused("chain 2", "2 of them", error=IndexError):
            small[2, 0]
        with refused("draw -4", "3 of them", error=IndexError):
            small[0, -4]
        with refused("draw", error=IndexError):
            small[0, "x"]
        for wrong in (None, True, np.True_, ..., "x"):
            with refused("index of a chain", "number", error=IndexError):
                small[wrong]
            with refused("index of a draw", "number", error=IndexError):
                small[0, wrong]
        for wrong in ((), (0,), (0, 1, 2)):
            with refused("trace[chain, draw]", error=IndexError):
                small[wrong]
        with pytest.raises(KeyError, match="no scalar named 'y'; this trace has: x"):
            small.scalar("y")
        with refused("at least one chain"):
            Trace([])

    @pytest.mark.parametrize(
        "summary", ["n_hidden_pmf", "edge_probabilities", "ancestor_probabilities", "most_probable", "consensus"]
    )
    def test_no_draws(self, small, summary):
        with refused("no draws yet"):
            getattr(small[:, :0], summary)()


class TestSummaries:
    def test_probabilities(self, sampled):
        n = sampled.n_observed
        edges, ancestors = np.zeros((n, n)), np.zeros((n, n))
        for dag in sampled:
            edges += dag.edges[:n, :n]
            closure = networkx.transitive_closure(dag.to_networkx())
            ancestors += networkx.to_numpy_array(closure, nodelist=range(dag.n_nodes), weight=None)[:n, :n]
        np.testing.assert_allclose(sampled.edge_probabilities(), edges / len(sampled))
        np.testing.assert_allclose(sampled.ancestor_probabilities(), ancestors / len(sampled))
        assert (ancestors > edges).any()  # some paths run through hidden nodes, so the two differ

    def test_n_hidden(self, sampled):
        pmf = sampled.n_hidden_pmf()
        assert pmf.sum() == pytest.approx(1)
        for k, share in enumerate(pmf):
            assert share == pytest.approx(np.mean([dag.n_hidden == k for dag in sampled]))

    def test_structures(self, sampled):
        structures = sampled.structures()
        shares = [share for _, share in structures]
        assert sum(shares) == pytest.approx(1)
        assert shares == sorted(shares, reverse=True)
        for dag, share in structures:
            alike = [other.same_structure(dag) for other in sampled]
            assert share == pytest.approx(np.mean(alike))
            best = np.flatnonzero(alike)[np.argmax(sampled.scalar("log_prob")[alike])]
            assert dag == list(sampled)[best]
        assert sampled.most_probable() == structures[0][0]

    def test_equally_frequent_structures_are_ranked_by_density(self):
        one, two = graph(2, 0, [(1, 0)]), graph(2, 0, [(0, 1)])
        trace = trace_of(
            [(one, {"log_prob": -1.0, "log_likelihood": -5.0}), (two, {"log_prob": -3.0, "log_likelihood": 0.0})]
        )
        assert trace.most_probable() == two


PLANTED = {
    "a common cause of two pairs": (4, 2, [(4, 0), (4, 1), (5, 2), (5, 3), (4, 5)]),
    "a chain of hidden nodes": (2, 4, [(2, 0), (3, 2), (4, 3), (5, 4), (5, 1)]),
    "twins that differ only in a hidden child": (3, 4, [(3, 0), (4, 1), (5, 3), (6, 4), (5, 2), (6, 2)]),
    "observed parents": (4, 2, [(0, 4), (1, 4), (4, 2), (1, 5), (5, 3), (5, 2)]),
    "no hidden nodes": (4, 0, [(3, 1), (3, 2), (1, 0)]),
}


class TestConsensus:
    @pytest.mark.parametrize("name", PLANTED)
    def test_planted_graph_is_recovered(self, name):
        rng = np.random.default_rng(3)
        planted = graph(*PLANTED[name])
        draws = []
        for _ in range(60):
            edges = planted.edges.copy()
            for k, i in np.argwhere(edges):
                if rng.random() < 0.15 and edges[k].sum() > 1:
                    edges[k, i] = False
            draws.append(renumbered(rng, Dag(edges, planted.order, planted.n_observed)))
        trace = trace_of(draws)
        assert len(trace.structures()) > 1
        assert trace.consensus().same_structure(planted)

    @pytest.mark.parametrize("name", PLANTED)
    def test_nodes_of_a_renumbered_graph_are_matched_to_themselves(self, name):
        rng = np.random.default_rng(4)
        planted = graph(*PLANTED[name])
        for _ in range(30):
            other = renumbered(rng, planted)
            place = match(other, planted)
            assert (np.sort(place) == np.arange(planted.n_nodes)).all()
            assert (planted.edges[np.ix_(place, place)] == other.edges).all()

    def test_majority(self):
        """Each pair of draws shares an edge that the third lacks: the graph of majorities is in no draw."""
        pairs = [(2, 0), (2, 1), (1, 0)]
        draws = [graph(3, 0, [pairs[a], pairs[b]], [0.1, 0.5, 0.9]) for a, b in ((0, 1), (1, 2), (0, 2))]
        consensus = trace_of(draws).consensus()
        assert sorted(map(tuple, np.argwhere(consensus.edges).tolist())) == sorted(pairs)
        np.testing.assert_allclose(consensus.order, [0.1, 0.5, 0.9])
        assert trace_of(draws).consensus(threshold=0.7).n_edges == 0

    def test_cycle_of_majorities(self):
        """0→1→2→0, each in more than half of the draws: the weakest of them is left out."""
        paths = [[(0, 1), (1, 2)]] * 4 + [[(1, 2), (2, 0)]] * 3 + [[(2, 0), (0, 1)]] * 2
        trace = trace_of([graph(3, 0, edges) for edges in paths])
        assert (trace.edge_probabilities()[[0, 1, 2], [1, 2, 0]] > 0.5).all()
        assert np.argwhere(trace.consensus().edges).tolist() == [[0, 1], [1, 2]]

    def test_rare_hidden_nodes_disappear(self):
        """Three structures have the hidden node 3, in six of ten draws; its parent 4 is in four of them."""
        draws = [graph(3, 2, [(3, 0), (3, 1), (4, 3), (2, 1)])] * 4
        draws += [graph(3, 1, [(3, 0), (3, 1), (2, 1)])] * 2
        draws += [graph(3, 0, edges) for edges in ([(2, 1)], [(2, 0)], [(1, 0)], [])]
        consensus = trace_of(draws).consensus()
        assert consensus.n_hidden == 1
        assert np.argwhere(consensus.edges).tolist() == [[2, 1], [3, 0], [3, 1]]
        assert trace_of(draws).consensus(threshold=0.3).n_hidden == 2
        assert trace_of(draws).consensus(threshold=0.65).n_hidden == 0

    def test_hidden_node_that_lost_its_children(self):
        """Its edges vary from draw to draw, so that none has a majority: the node goes, with the node above it."""
        draws = [graph(4, 2, [(4, i), (5, 4), (3, 2)]) for i in (0, 1, 2)]
        consensus = trace_of(draws).consensus()
        assert (consensus.n_hidden, consensus.n_edges) == (0, 1)

    @pytest.mark.parametrize("threshold", [-0.1, 1.0, float("nan")])
    def test_threshold(self, small, threshold):
        with refused("threshold"):
            small.consensus(threshold)


class TestArviz:
    def test_summary(self, sampled):
        data = sampled.to_arviz()
        assert dict(data.posterior.sizes) == {"chain": 2, "draw": 150}
        np.testing.assert_array_equal(data.posterior["n_hidden"].values.ravel(), sampled.n_hidden)
        import arviz

        summary = arviz.summary(data, var_names=["n_hidden", "n_edges", "log_prob"])
        assert (summary["ess_bulk"] > 10).all()
        assert (abs(summary["r_hat"] - 1) < 0.2).all()

    def test_chains_of_different_lengths(self, small):
        np.testing.assert_array_equal(small.to_arviz().posterior["x"].values, [[1, 2], [4, 5]])

    def test_announcement_on_import_is_not_passed_on(self, sampled, monkeypatch):
        import types

        class Announcing:
            def find_spec(self, name, path=None, target=None):
                if name == "arviz":
                    import importlib.machinery

                    return importlib.machinery.ModuleSpec(name, self)

            def create_module(self, spec):
                return types.ModuleType(spec.name)

            def exec_module(self, module):
                code = "import warnings\nwarnings.warn('a new version', FutureWarning)\n__version__ = '0.99'"
                exec(code, module.__dict__)
                module.from_dict = lambda **groups: groups

        monkeypatch.delitem(sys.modules, "arviz", raising=False)
        monkeypatch.setattr(sys, "meta_path", [Announcing(), *sys.meta_path])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert set(sampled.to_arviz()) == {"posterior"}
        monkeypatch.setattr(sys.modules["arviz"], "__version__", "1.2.3")
        monkeypatch.setattr(sys.modules["arviz"], "from_dict", lambda groups: groups, raising=False)
        assert "n_hidden" in sampled.to_arviz()["posterior"]
        monkeypatch.delitem(sys.modules, "arviz")

    @pytest.mark.parametrize("package, method", [("arviz", "to_arviz"), ("xarray", "to_xarray")])
    def test_missing_package(self, sampled, monkeypatch, package, method):
        monkeypatch.setitem(sys.modules, package, None)
        with refused(method, "chefs[export]", error=ImportError):
            getattr(sampled, method)()


class TestXarray:
    def test_conventions(self, small):
        dataset = small.to_xarray()
        assert dataset.attrs["Conventions"].startswith("CF-")
        for count, dimension in (("n_nodes", "node"), ("n_edges", "edge")):
            assert dataset[count].attrs["sample_dimension"] == dimension
            assert int(dataset[count].sum()) == dataset.sizes[dimension]

    def test_there_and_back(self, sampled, small):
        for trace in (sampled, small, small[:, :1], trace_of([graph(2, 0, [])])):
            back = Trace.from_xarray(trace.to_xarray())
            assert same_draws(back, trace)
            assert (back.names, back.stats) == (trace.names, trace.stats)

    def test_netcdf(self, small, tmp_path):
        import xarray

        small.to_xarray().to_netcdf(tmp_path / "trace.nc", engine="h5netcdf")
        with xarray.open_dataset(tmp_path / "trace.nc", engine="h5netcdf") as dataset:
            back = Trace.from_xarray(dataset)
        assert same_draws(back, small)
        assert back.names == small.names

    def test_zarr(self, sampled, tmp_path):
        import xarray

        sampled.to_xarray().to_zarr(tmp_path / "trace.zarr", consolidated=False)
        with xarray.open_zarr(tmp_path / "trace.zarr", consolidated=False, chunks=None) as dataset:
            back = Trace.from_xarray(dataset)
        assert same_draws(back, sampled)
        assert (back.names, back.stats) == (sampled.names, sampled.stats)

    def test_names_that_look_like_other_parameters(self):
        dag = graph(2, 1, [(2, 0), (2, 1)])
        chain = ChainDraws.from_draws(2, [draw_of(dag, {"node_rate": 1.0, "edge_": 2.0})])
        assert same_draws(Trace.from_xarray(Trace([chain]).to_xarray()), Trace([chain]))
        with refused("two variables", "'n_nodes'"):
            Trace([ChainDraws.from_draws(2, [draw_of(dag, {"n_nodes": 1.0})])]).to_xarray()

    def test_foreign_dataset(self):
        import xarray

        with refused("not a trace", "n_nodes"):
            Trace.from_xarray(xarray.Dataset({"x": ("draw", np.zeros(3))}))


class TestNames:
    @pytest.mark.parametrize("names", [[7, 8], np.array([7, 8]), ("7", "8"), np.array(["7", "8"])], ids=repr)
    def test_in_memory_as_on_disk(self, small, names, tmp_path):
        trace = Trace(small.chains, names=names)
        trace.save(tmp_path / "trace")
        for each in (trace, Trace.load(tmp_path / "trace"), Trace.from_xarray(trace.to_xarray())):
            assert each.names == ["7", "8"]
            assert {type(name) for name in each.names} == {str}

    @pytest.mark.parametrize("names", ["ab", ["a"], ["a", "b", "c"], 3, np.array(3)], ids=repr)
    def test_refused(self, small, names):
        with refused("names", "2 observed nodes"):
            Trace(small.chains, names=names)


class TestFiles:
    def test_there_and_back(self, sampled, small, tmp_path):
        for number, trace in enumerate((sampled, small, small[:, :0])):
            trace.save(tmp_path / f"{number}")
            back = Trace.load(tmp_path / f"{number}")
            assert same_draws(back, trace) or not len(trace)
            assert (back.names, back.stats) == (trace.names, trace.stats)
            assert len(back) == len(trace)

    def test_into_a_folder_that_is_there_and_empty(self, small, tmp_path):
        small.save(tmp_path)
        assert same_draws(Trace.load(str(tmp_path)), small)

    def test_folder_that_is_not_empty_is_left_alone(self, small, tmp_path):
        (tmp_path / "thesis.tex").write_text("all my work")
        with refused("not empty", str(tmp_path), error=FileExistsError):
            small.save(tmp_path)
        with refused("not empty", error=FileExistsError):
            small.save(tmp_path / "thesis.tex")
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
        assert (tmp_path / "thesis.tex").read_text() == "all my work"

    def test_saved_twice(self, small, tmp_path):
        small.save(tmp_path / "trace")
        with refused("not empty", error=FileExistsError):
            small.save(tmp_path / "trace")
        assert same_draws(Trace.load(tmp_path / "trace"), small)

    def test_not_a_run(self, tmp_path):
        with refused("not a run of chefs", error=RunError):
            Trace.load(tmp_path)
        with refused("not a run of chefs", error=RunError):
            Trace.load(tmp_path / "nowhere")

    def test_saved_trace_is_not_a_run_to_continue(self, small, tmp_path):
        small.save(tmp_path / "trace")
        with refused("saved", "not a run that can be continued", error=RunError):
            chefs.resume(tmp_path / "trace")

    def test_lost_part_of_a_saved_trace_is_noticed(self, small, tmp_path):
        small.save(tmp_path / "trace")
        (tmp_path / "trace" / "chain-1" / "draws-000000").unlink()
        with refused("0 of the 2 draws", "partial=True", error=RunError):
            Trace.load(tmp_path / "trace")
        assert same_draws(Trace.load(tmp_path / "trace", partial=True)[0], small[0])
