"""Dag and Dags: every method against a brute-force or networkx answer, every bad input against one sentence."""

import copy
import dataclasses
import itertools
import json
import os
import pickle
import subprocess
import sys
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chefs import Dag, Dags
from chefs.dag import checked_dag
from tests.helpers import edge_set, refused
from tests.strategies import dags

CHAIN = Dag([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [0.0, 0.5, 1.0], 1)


def permuted(dag, hidden):
    """The same graph with its hidden nodes in another order."""
    new = [*range(dag.n_observed), *hidden]
    return Dag(dag.edges[np.ix_(new, new)], dag.order[new], dag.n_observed)


def shuffled(data, dag):
    return permuted(dag, data.draw(st.permutations(range(dag.n_observed, dag.n_nodes))))


def equal_by_trying(a, b, orders=True):
    """Whether some renaming of the hidden nodes turns a into b."""
    if (a.n_observed, a.n_nodes) != (b.n_observed, b.n_nodes):
        return False
    for hidden in itertools.permutations(range(a.n_observed, a.n_nodes)):
        new = [*range(a.n_observed), *hidden]
        if (a.edges[np.ix_(new, new)] == b.edges).all() and (not orders or (a.order[new] == b.order).all()):
            return True
    return False


def changed(data, dag):
    """The graph with one edge more or less, or one order moved; None where that is no graph."""
    edges, order = dag.edges.copy(), dag.order.copy()
    if data.draw(st.booleans()):
        k, i = data.draw(st.sampled_from([*itertools.permutations(range(dag.n_nodes), 2)] or [(0, 0)]))
        edges[k, i] = not edges[k, i]
    else:
        order[data.draw(st.integers(0, dag.n_nodes - 1))] = data.draw(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
    try:
        return Dag(edges, order, dag.n_observed)
    except ValueError:
        return None


# What a graph says about itself.


@given(dags())
def test_counts(dag):
    assert dag.n_nodes == len(dag.order) == dag.n_observed + dag.n_hidden
    assert dag.n_edges == len(edge_set(dag))
    assert dag.average_degree == len(edge_set(dag)) / len(dag.order)
    assert isinstance(dag.n_edges, int)


@given(dags())
def test_relatives_and_depth(dag):
    graph = nx.DiGraph(list(edge_set(dag)))
    graph.add_nodes_from(range(dag.n_nodes))
    for i in range(dag.n_nodes):
        assert dag.parents(i).tolist() == sorted(graph.predecessors(i))
        assert dag.children(i).tolist() == sorted(graph.successors(i))
        assert dag.ancestors(i).tolist() == sorted(nx.ancestors(graph, i))
        assert dag.parents(i - dag.n_nodes).tolist() == dag.parents(i).tolist()
    assert dag.depth == nx.dag_longest_path_length(graph)


@given(dags(max_observed=3, max_hidden=4))
def test_width(dag):
    graph = dag.to_networkx()
    for source, target in itertools.product(range(dag.n_nodes), repeat=2):
        paths = 1 if source == target else len(list(nx.all_simple_paths(graph, source, target)))
        assert dag.width(source, target) == paths


def test_width_is_exact_beyond_64_bits():
    """A ladder of 200 layers of two nodes, each connected to both nodes of the next layer."""
    layer = np.concatenate([[0], 1 + np.arange(400) // 2])
    dag = Dag(layer[:, None] == layer[None, :] + 1, layer / 200, 1)
    assert dag.depth == 200
    assert dag.width(400, 0) == 2**199
    assert dag.width(400, 1) == 2**198
    assert dag.width(0, 400) == 0
    assert dag.width(400, 399) == 0


@pytest.mark.parametrize("method", ["parents", "children", "ancestors"])
@pytest.mark.parametrize("node", [3, -4, 100])
def test_nodes_that_do_not_exist(method, node):
    with refused("node", str(node), error=IndexError):
        getattr(CHAIN, method)(node)
    with refused("node", str(node), error=IndexError):
        CHAIN.width(0, node)


@given(st.data(), dags())
def test_sorted(data, dag):
    ordered = dag.sorted()
    assert ordered == dag
    assert (np.diff(ordered.order[dag.n_observed :]) >= 0).all()
    assert (ordered.order[: dag.n_observed] == dag.order[: dag.n_observed]).all()
    if len(set(dag.order[dag.n_observed :])) == dag.n_hidden:
        assert shuffled(data, dag).sorted().to_json() == ordered.to_json()


def test_repr():
    assert repr(CHAIN) == "Dag(1 observed, 2 hidden, 2 edges: 1→0, 2→1)"
    assert repr(Dag([[0]], [0.3], 1)) == "Dag(1 observed, 0 hidden, 0 edges)"
    full = Dag(np.tri(40, k=-1, dtype=int), np.linspace(0, 1, 40), 1)
    assert "39 hidden, 780 edges" in repr(full)
    assert len(repr(full)) < 200


@given(dags())
def test_svg_is_well_formed(dag):
    assert ElementTree.fromstring(dag._repr_svg_()).tag.endswith("svg")


# Equality.


@given(st.data(), dags())
def test_renamed_graphs_are_equal(data, dag):
    other = shuffled(data, dag)
    assert dag == other
    assert hash(dag) == hash(other)
    assert dag.same_structure(other)
    assert dag.structure_key() == other.structure_key()


@settings(max_examples=300)
@given(st.data(), dags(max_observed=2, max_hidden=4, grid=True))
def test_equality_is_what_trying_every_renaming_says(data, dag):
    other = changed(data, shuffled(data, dag))
    assume(other is not None)
    equal, alike = equal_by_trying(dag, other), equal_by_trying(dag, other, orders=False)
    assert (dag == other) == equal
    assert (dag != other) != equal
    assert dag.same_structure(other) == alike
    if equal:
        assert hash(dag) == hash(other)
    if alike:
        assert dag.structure_key() == other.structure_key()


@given(st.data(), dags(grid=True))
def test_one_edge_or_order_more_or_less_makes_a_difference(data, dag):
    """Counts of edges, or sorted orders, differ: such graphs can never be equal; nor are their hashes by accident."""
    other = changed(data, shuffled(data, dag))
    assume(other is not None)
    if dag.n_edges != other.n_edges:
        assert not dag.same_structure(other)
        assert dag.structure_key() != other.structure_key()
    if dag.n_edges != other.n_edges or sorted(dag.order) != sorted(other.order):
        assert dag != other
        assert hash(dag) != hash(other)
        assert len({dag, other}) == 2


def test_observed_nodes_cannot_be_renamed():
    a = Dag([[0, 0, 0], [0, 0, 0], [1, 0, 0]], [0, 0, 1], 2)
    b = Dag([[0, 0, 0], [0, 0, 0], [0, 1, 0]], [0, 0, 1], 2)
    assert a != b
    assert not a.same_structure(b)
    assert a.structure_key() != b.structure_key()


def test_the_number_of_observed_nodes_matters():
    a, b = (Dag([[0, 0], [1, 0]], [0, 1], n) for n in (1, 2))
    assert a != b
    assert not a.same_structure(b)
    assert a.structure_key() != b.structure_key()


def rings(*lengths):
    """Rings of hidden nodes that are alternately at order 1 and at 1/2; the lower ones are parents of node 0."""
    n_low = sum(lengths) // 2
    n = 1 + 2 * n_low
    edges = np.zeros((n, n), dtype=bool)
    edges[1 : 1 + n_low, 0] = True
    start = 1
    for half in (length // 2 for length in lengths):
        for j in range(half):
            edges[n_low + start + j, [start + j, start + (j + 1) % half]] = True
        start += half
    return Dag(edges, [0.0] + [0.5] * n_low + [1.0] * n_low, 1)


@given(st.data())
@settings(max_examples=20)
def test_graphs_that_their_neighbourhoods_do_not_tell_apart(data):
    """One ring of 12 and two rings of 6, or of 4 and 8: every node looks the same from nearby."""
    kinds = [rings(12), rings(6, 6), rings(4, 8)]
    for (i, a), (j, b) in itertools.product(enumerate(kinds), repeat=2):
        other = shuffled(data, b)
        assert (a == other) == (i == j)
        assert a.same_structure(other) == (i == j)
        if i == j:
            assert hash(a) == hash(other)


def test_interchangeable_hidden_nodes():
    """Five equal parents of one node, and a sixth node that is a parent of two of them: which two does not matter."""
    edges = np.zeros((7, 7), dtype=bool)
    edges[1:6, 0] = True
    variants = []
    for pair in itertools.combinations(range(1, 6), 2):
        new = edges.copy()
        new[6, list(pair)] = True
        variants.append(Dag(new, [0.0] + [0.5] * 5 + [1.0], 1))
    assert len(set(variants)) == 1


@pytest.mark.parametrize("low", [2.0**-61, 2.0**-62, 5e-324])
def test_orders_whose_hashes_agree_are_still_different(low):
    """hash(x) of a float is that of x / 2^61: equality must not rest on it."""
    high = low * 2.0**61 if low > 1e-300 else 1.0
    edges = [[0, 0, 0], [1, 0, 0], [1, 0, 0]]
    a, b = Dag(edges, [0.0, low, high], 1), Dag(edges, [0.0, high, low], 1)
    assert a == b
    assert hash(a) == hash(b)
    for x, y in itertools.combinations([(low, low), (low, high), (high, high)], 2):
        assert Dag(edges, [0.0, *x], 1) != Dag(edges, [0.0, *y], 1)


def test_minus_zero_is_zero():
    a, b = Dag([[0]], [0.0], 1), Dag([[0]], [-0.0], 1)
    assert a == b
    assert hash(a) == hash(b)


@given(dags())
def test_a_graph_equals_nothing_else(dag):
    assert dag != dag.to_json()
    assert dag != None  # noqa: E711
    assert dag == dag


def test_structure_keys_are_the_same_in_every_process():
    code = (
        "import sys; from chefs import Dag; dag = Dag.from_json(sys.stdin.read()); "
        "print(dag.structure_key(), hash(dag), dag.sorted().to_json())"
    )
    dag = rings(6, 4)
    answers = {f"{dag.structure_key()} {hash(dag)} {dag.sorted().to_json()}"}
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", code],
            input=dag.to_json(),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        answers.add(run.stdout.strip())
    assert len(answers) == 1


# There and back.


@given(dags())
def test_networkx_there_and_back(dag):
    graph = dag.to_networkx()
    assert set(graph.edges) == edge_set(dag)
    assert [graph.nodes[i]["order"] for i in range(dag.n_nodes)] == dag.order.tolist()
    assert [graph.nodes[i]["observed"] for i in range(dag.n_nodes)] == [i < dag.n_observed for i in range(dag.n_nodes)]
    assert Dag.from_networkx(graph).to_json() == dag.to_json()


@given(st.data(), dags())
def test_networkx_nodes_in_any_sequence_and_of_any_name(data, dag):
    names = {i: f"node {i}" for i in range(dag.n_nodes)}
    source = nx.relabel_nodes(dag.to_networkx(), names)
    graph = nx.DiGraph()
    hidden = data.draw(st.permutations(range(dag.n_observed, dag.n_nodes)))
    for i in [*hidden, *range(dag.n_observed)]:  # hidden ones first: observed ones must still get the first numbers
        graph.add_node(names[i], **source.nodes[names[i]])
    graph.add_edges_from(source.edges)
    assert Dag.from_networkx(graph) == dag


@given(dags())
def test_networkx_graph_without_orders(dag):
    graph = dag.to_networkx()
    for i in graph:
        del graph.nodes[i]["order"]
    found = Dag.from_networkx(graph)
    assert found.same_structure(dag)
    assert found.n_observed == dag.n_observed
    for i in range(dag.n_nodes):
        assert (found.order[i] == 0) == (len(dag.children(i)) == 0)


def test_networkx_nodes_are_observed_unless_they_say_otherwise():
    graph = nx.DiGraph([("a", "b"), ("c", "a"), ("c", "b")])
    assert Dag.from_networkx(graph).n_observed == 3
    graph.nodes["c"]["observed"] = False
    dag = Dag.from_networkx(graph)
    assert edge_set(dag) == {(0, 1), (2, 0), (2, 1)}
    assert dag.n_observed == 2


def test_dot():
    dag = Dag([[0, 0, 0], [0, 0, 0], [1, 1, 0]], [0, 0.25, 1], 2)
    text = dag.to_dot()
    assert text.startswith("digraph {\n")
    assert text.endswith("}\n")
    assert [line.strip() for line in text.splitlines() if "->" in line] == ["2 -> 0;", "2 -> 1;"]
    shapes = {line.split()[0]: "box" in line for line in text.splitlines() if "shape" in line}
    assert shapes == {"0": True, "1": True, "2": False}
    named = dag.to_dot(names=np.array(['say "hé"', "a\\b"]))
    assert r'label="say \"hé\""' in named
    assert r'label="a\\b"' in named
    assert 'label="2"' in named
    for wrong in (["a"], list("abcd"), "ab", 3, np.array(3)):
        with refused("names", "2 observed nodes", "3 nodes"):
            dag.to_dot(names=wrong)


@given(dags())
def test_dot_has_every_node_and_edge(dag):
    lines = dag.to_dot(names=["x"] * dag.n_nodes).splitlines()
    assert sum("->" in line for line in lines) == dag.n_edges
    assert sum('label="x"' in line for line in lines) == dag.n_nodes


@given(dags())
def test_json_there_and_back(dag):
    text = dag.to_json()
    assert "\n" not in text
    back = Dag.from_json(text)
    assert (back.edges == dag.edges).all()
    assert (back.order == dag.order).all()
    assert back.n_observed == dag.n_observed
    assert set(json.loads(text)) == {"n_observed", "order", "edges"}


@given(dags())
def test_pickle_and_copies(dag):
    for back in (pickle.loads(pickle.dumps(dag)), copy.copy(dag), copy.deepcopy(dag)):
        assert back.to_json() == dag.to_json()
        assert not back.edges.flags.writeable
        assert not back.order.flags.writeable


# Nothing changes a graph.


def test_arrays_cannot_be_written_and_are_not_shared():
    edges, order = np.array([[False, False], [True, False]]), np.array([0.0, 0.5])
    dag = Dag(edges, order, 1)
    edges[1, 0], order[1] = False, 0.75
    assert dag.n_edges == 1
    assert dag.order[1] == 0.5
    edges[1, 0] = True
    for made in (dag, Dag.from_json(dag.to_json()), dag.sorted(), Dags(1, *flat([dag]))[0]):
        with pytest.raises(ValueError, match="read-only"):
            made.edges[0, 0] = True
        with pytest.raises(ValueError, match="read-only"):
            made.order[0] = 0.1
    with pytest.raises(dataclasses.FrozenInstanceError):
        dag.n_observed = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        dag.order = order


# Bad input.


@pytest.mark.parametrize(
    "edges,names",
    [
        ([[0, 0]], ["edges", "(2, 2)", "(1, 2)"]),
        ([0, 0], ["edges", "shape"]),
        (0, ["edges", "shape"]),
        (np.zeros((3, 3), dtype=bool), ["edges", "(3, 3)"]),
        ([[0, 0], [1]], ["edges"]),
        ([[0, 0], [2, 0]], ["edges", "0 and 1"]),
        ([[0, 0], [-1, 0]], ["edges", "0 and 1"]),
        ([[0.0, 0.0], [1.0, 0.0]], ["edges", "float64"]),
        ([["0", "0"], ["1", "0"]], ["edges"]),
        ([[None, None], [None, None]], ["edges"]),
        ([[0, 1], [0, 0]], ["edge 0→1", "order[0] = 0", "order[1] = 0.5"]),
        ([[0, 0], [1, 1]], ["edge 1→1"]),
        ([[0, 0], [0, 0]], ["hidden node 1", "no child"]),
    ],
)
def test_bad_edges(edges, names):
    with refused(*names):
        Dag(edges, [0.0, 0.5], 1)


@pytest.mark.parametrize(
    "order",
    [
        [0.0, 1.5],
        [-0.1, 0.5],
        [0.0, np.nan],
        [0.0, np.inf],
        [0.0, None],
        [[0.0, 0.5]],
        0.5,
        ["a", "b"],
        ["0.0", "0.5"],
        [0.0, 0.5j],
        np.array([0.0, 0.5j]),
        [0.0, [0.5]],
        {"a": 1},
    ],
)
def test_bad_order(order):
    with refused("order"):
        Dag([[0, 0], [1, 0]], order, 1)


def test_equal_orders_do_not_connect():
    with refused("edge 1→0", "strictly"):
        Dag([[0, 0], [1, 0]], [0.5, 0.5], 1)


@pytest.mark.parametrize(
    "n_observed", [0, -1, 3, 10**400, "x" * 500, np.zeros((50, 2)), True, False, 1.0, "1", None, np.float64(1)]
)
def test_bad_n_observed(n_observed):
    with refused("n_observed"):
        Dag([[0, 0], [1, 0]], [0.0, 0.5], n_observed)


@pytest.mark.parametrize("wrong", ["a", 1.5, None, True, [0], np.array([0, 1])], ids=repr)
def test_bad_nodes(wrong):
    dag = Dag([[0, 0], [1, 0]], [0.0, 0.5], 1)
    for method in (dag.parents, dag.children, dag.ancestors, lambda node: dag.width(node, 0)):
        with refused("node", "0 to 1", error=TypeError):
            method(wrong)


@pytest.mark.parametrize("wrong", [3, None, "dag", np.eye(2)], ids=repr)
def test_not_a_dag(wrong):
    with refused("other", "chefs.Dag", error=TypeError):
        Dag([[0]], [0.0], 1).same_structure(wrong)
    with refused("start", "chefs.Dag", error=TypeError):
        checked_dag(wrong, "start")


def test_a_graph_without_nodes():
    with refused("n_observed"):
        Dag(np.zeros((0, 0), dtype=bool), [], 0)


def test_bad_networkx_graphs():
    with refused("cycle", "0 → 1 → 2"):
        Dag.from_networkx(nx.DiGraph([(0, 1), (1, 2), (2, 0)]))
    with refused("cycle"):
        Dag.from_networkx(nx.cycle_graph(1000, create_using=nx.DiGraph))
    with refused("cycle"):
        Dag.from_networkx(nx.DiGraph([(0, 0)]))
    for wrong in (3, None, [(0, 1)], {0: [1]}):
        with refused("graph", "networkx.DiGraph", error=TypeError):
            Dag.from_networkx(wrong)
    for wrong in (nx.Graph([(0, 1)]), nx.MultiDiGraph([(0, 1), (0, 1)])):
        with refused("DiGraph"):
            Dag.from_networkx(wrong)
    partly = nx.DiGraph([("a", "b")])
    partly.nodes["a"]["order"] = 0.5
    with refused("'b'", "order"):
        Dag.from_networkx(partly)
    for wrong in ("low", "0.2", [0.2], 0.2j):
        partly.nodes["b"]["order"] = wrong
        with refused("order of node 'b'", "number"):
            Dag.from_networkx(partly)
    partly.nodes["b"]["order"] = 0.7
    with refused("edge 0→1", "order"):
        Dag.from_networkx(partly)
    partly.nodes["b"].update(order=0.2, observed=False)
    with refused("hidden node 1", "no child"):
        Dag.from_networkx(partly)
    with refused("n_observed"):
        Dag.from_networkx(nx.DiGraph())


@pytest.mark.parametrize("text", ["", "{", "not JSON", b"\xff\xfe\x00", "{'a': 1}", "[" * 100_000, "9" * 5000, None])
def test_not_json(text):
    with refused("text is not JSON"):
        Dag.from_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "1",
        "null",
        '"text"',
        "{}",
        '{"n_observed": 1, "order": [0.0]}',
        '{"n_observed": 1, "edges": []}',
        '{"order": [0.0], "edges": []}',
        '{"n_observed": 1, "order": {}, "edges": []}',
        '{"n_observed": 1, "order": ["a"], "edges": []}',
        '{"n_observed": 1, "order": [0, 1], "edges": [[1]]}',
        '{"n_observed": 1, "order": [0, 1], "edges": [1, 0]}',
        '{"n_observed": 1, "order": [0, 1], "edges": [[1, 0, 0]]}',
        '{"n_observed": 1, "order": [0, 1], "edges": [[1, 0], [1]]}',
        '{"n_observed": 1, "order": [0, 1], "edges": [[1.5, 0.5]]}',
        '{"n_observed": 1, "order": [0, 1], "edges": [[2, 0]]}',
        '{"n_observed": 1, "order": [0, 1], "edges": [[1, -2]]}',
        '{"n_observed": 1, "order": [0, 1], "edges": [[1e30, 0]]}',
        '{"n_observed": 1, "order": [0, 1], "edges": [[9999999999999999999999, 0]]}',
        '{"n_observed": 1, "order": [0, 1], "edges": [["1", "0"]]}',
        '{"n_observed": 1, "order": [0, 1], "edges": "1"}',
        '{"n_observed": 1, "order": [0, 1], "edges": {"a": 1}}',
    ],
)
def test_json_of_another_shape(text):
    with refused("text", "not a graph", "edges"):
        Dag.from_json(text)


@pytest.mark.parametrize(
    "text,name",
    [
        ('{"n_observed": 1.0, "order": [0, 1], "edges": [[1, 0]]}', "n_observed"),
        ('{"n_observed": "1", "order": [0, 1], "edges": [[1, 0]]}', "n_observed"),
        ('{"n_observed": 3, "order": [0, 1], "edges": [[1, 0]]}', "n_observed"),
        ('{"n_observed": 1, "order": [0, 2], "edges": [[1, 0]]}', "order"),
        ('{"n_observed": 1, "order": [0, NaN], "edges": [[1, 0]]}', "order"),
        ('{"n_observed": 1, "order": [0, null], "edges": [[1, 0]]}', "order"),
        ('{"n_observed": 1, "order": [0, 1], "edges": [[0, 1]]}', "edge 0→1"),
        ('{"n_observed": 1, "order": [0, 1], "edges": []}', "hidden node 1"),
    ],
)
def test_json_of_a_graph_that_cannot_be(text, name):
    with refused(name):
        Dag.from_json(text)


# Dags: many graphs end to end.


def flat(graphs):
    """The five arrays of a `Dags` that holds these graphs."""
    pairs = [np.argwhere(dag.edges) for dag in graphs]
    together = np.concatenate([np.empty((0, 2), dtype=int), *pairs])
    return (
        np.cumsum([0, *(dag.n_nodes for dag in graphs)]),
        np.cumsum([0, *(len(p) for p in pairs)]),
        np.concatenate([np.empty(0), *(dag.order for dag in graphs)]),
        together[:, 0],
        together[:, 1],
    )


@st.composite
def sequences(draw):
    """A list of graphs over the same number of observed nodes, and the same as `Dags`."""
    n_observed = draw(st.integers(1, 3))
    some = dags(max_observed=3, max_hidden=3).filter(lambda dag: dag.n_observed == n_observed)
    graphs = draw(st.lists(some, max_size=5))
    return graphs, Dags(n_observed, *flat(graphs))


def same(found, expected):
    return [dag.to_json() for dag in found] == [dag.to_json() for dag in expected]


@settings(max_examples=50)
@given(st.data(), sequences())
def test_dags_are_a_sequence(data, sequence):
    graphs, dags = sequence
    n = len(graphs)
    assert len(dags) == n
    assert same(dags, graphs)
    assert same([dags[g] for g in range(n)], graphs)
    assert same([dags[g - n] for g in range(n)], graphs)
    assert same(reversed(dags), graphs[::-1])
    cut = data.draw(st.slices(n))
    assert isinstance(dags[cut], Dags)
    assert same(dags[cut], graphs[cut])
    picks = data.draw(st.lists(st.integers(-n, n - 1), max_size=6)) if n else []
    assert same(dags.take(np.array(picks, dtype=int)), [graphs[g] for g in picks])
    assert dags.n_nodes.tolist() == [dag.n_nodes for dag in graphs]
    assert dags.n_hidden.tolist() == [dag.n_hidden for dag in graphs]
    assert dags.n_edges.tolist() == [dag.n_edges for dag in graphs]
    for bad in (n, -n - 1, n + 100):
        with pytest.raises(IndexError):
            dags[bad]


def test_dags_repr_and_numpy_indices():
    dags = Dags(1, *flat([CHAIN, CHAIN.sorted(), Dag([[0]], [0.0], 1)]))
    assert repr(dags) == "Dags(3 graphs, 1 observed node, 4 hidden)"
    assert repr(dags[:1]) == "Dags(1 graph, 1 observed node, 2 hidden)"
    assert dags[np.int64(2)].n_nodes == 1
    for wrong in ("0", 0.0, True, None, (0, 1)):
        with refused("graph", "number", error=TypeError):
            dags[wrong]
    for far in (3, 99, -4):
        with refused(f"graph {far}", "there are 3", error=IndexError):
            dags[far]


def test_a_graph_taken_out_is_a_copy():
    dags = Dags(1, *flat([CHAIN, CHAIN]))
    dag = dags[1]
    dags.order[:] = 0.25
    assert dag.order.tolist() == CHAIN.order.tolist()
