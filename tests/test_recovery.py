"""The experiment on recovery: its networks, how it compares, and that it resumes."""

import json

import numpy as np

from chefs import Dag
from chefs.experiments.recovery import TRUTH, agreement, child_sets, data_of, main, summary, truth


def star(*sets, n_observed, hidden_edge=False):
    """A network with these sets of observed children."""
    n = n_observed + len(sets)
    edges = np.zeros((n, n), dtype=bool)
    for k, children in enumerate(sets):
        edges[n_observed + k, list(children)] = True
    edges[n - 1, n_observed] |= hidden_edge
    return Dag(edges, np.concatenate([np.zeros(n_observed), np.arange(1, len(sets) + 1) / (n + 1)]), n_observed)


def test_networks_are_as_described():
    shared = []
    for seed in range(40):
        n_hidden = 1 + seed % 4
        dag = truth(np.random.default_rng(seed), n_hidden)
        n_parents = dag.edges.sum(axis=0)[: dag.n_observed]
        assert dag.n_hidden == n_hidden
        assert not dag.edges[:, dag.n_observed :].any()
        assert n_parents.min() == 1
        own = (dag.edges[dag.n_observed :, : dag.n_observed] & (n_parents == 1)).sum(axis=1)
        assert set(own) <= {2, 3}
        shared.append(int((n_parents > 1).sum()))
        assert n_parents.max() <= 2
        assert n_hidden > 1 or shared[-1] == 0
    assert set(shared) == {0, 1}


def test_data_correlate_exactly_where_units_are_shared():
    dag = star((0, 1), (2, 3, 4), n_observed=5)
    made = data_of(np.random.default_rng(0), dag, 5000)
    data = made.a[:5].T
    assert np.allclose(data.mean(axis=0), 0)
    assert np.allclose(data.std(axis=0), 1)
    together = dag.edges[5:, :5].T.astype(int) @ dag.edges[5:, :5] > 0
    assert ((np.abs(np.corrcoef(data.T)) > 0.3) == together).all()
    # What the true network leaves of a column is noise of the precision that is said.
    outputs = 1 / (1 + np.exp(-made.a[5:]))
    for i, k in enumerate((0, 0, 1, 1, 1)):
        left = made.a[i] - np.polyval(np.polyfit(outputs[k], made.a[i], 1), outputs[k])
        assert abs(left.var() * made.rho[i] - 1) < 4 * np.sqrt(2 / 5000)
        assert abs(made.a[5 + k].var() * made.rho[5 + k] - 1) < 4 * np.sqrt(2 / 5000)


def test_agreement_matches_units_so_that_most_edges_are_found():
    dag = star((0, 1, 2), (3, 4), n_observed=5)
    found = star((3,), (3, 4, 0), (0, 1), n_observed=5, hidden_edge=True)
    assert agreement(dag, found) == {
        "true_edges": 5,
        "edges_found": 4,
        "false_edges": 3,  # the unit with one child, 0 of the second, and the edge between units
        "false_sharing_edges": 2,
        "sets_found": 0,
    }
    assert agreement(dag, star((3, 4), (0, 1, 2), n_observed=5))["sets_found"] == 2
    assert agreement(dag, Dag(np.zeros((5, 5), dtype=bool), np.zeros(5), 5))["edges_found"] == 0
    assert child_sets(found) == [[-1, 0, 1], [0, 3, 4]]


def test_a_small_run_is_kept_and_not_made_again(tmp_path, capsys):
    given = ["--out", str(tmp_path), "--hidden", "1", "--draws", "1", "--points", "200", "--seconds", "0.5"]
    given += ["--variants", f"ours,{TRUTH},without order"]
    main(given)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["from-the-truth-1-0.json", "ours-1-0.json", "without-order-1-0.json"]
    before = [(tmp_path / name).read_bytes() for name in files]
    main(given)
    assert [(tmp_path / name).read_bytes() for name in files] == before
    assert "stays as it is" not in capsys.readouterr().out
    main([*given, "--points", "100"])
    out = capsys.readouterr().out
    assert out.count("was made with 200 points in") == 3 and "stays as it is" in out
    result = json.loads(before[0])
    assert np.allclose([sum(result["posterior"]), sum(result["posterior_sharing"])], 1)
    assert result["n_draws"] > 1
    assert result["p_right"] == (result["posterior"] + [0, 0])[1]
    assert 0 <= result["edges_found"] <= result["true_edges"]
    rows = summary(tmp_path).splitlines()
    assert [row.split(" | ")[:3] for row in rows[2:]] == [
        ["| ours", "1", "1"],
        ["| ours", "all", "1"],
        ["| from the truth", "1", "1"],
        ["| from the truth", "all", "1"],
        ["| without order", "1", "1"],
        ["| without order", "all", "1"],
    ]
    assert rows[-1] in out
