import io
import struct
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from chefs import ChefsProcess, Dag, plots


@pytest.fixture(scope="module")
def numbers():
    return plots.prior_numbers(np.random.default_rng(3), draws=400)


def drawn(prior, observed, low, high):
    many = prior.sample(np.random.default_rng(0), observed, size=500)
    return next(dag for dag in many if low <= dag.n_nodes <= high)


def png_size(figure, dpi=50):
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=dpi)
    content = buffer.getvalue()
    assert content.startswith(b"\x89PNG")
    return struct.unpack(">II", content[16:24])


@pytest.mark.parametrize(
    "dag",
    [
        drawn(ChefsProcess(1.0, 0.5, 1.0), 2, 2, 2),
        drawn(ChefsProcess(1.0, 2.0, 1.0), [0.0, 0.0, 0.0], 10, 14),
        drawn(ChefsProcess(1.0, 20.0, 5.0), [1.0, 0.0], 80, 100),
    ],
    ids=lambda dag: f"{dag.n_nodes} nodes",
)
def test_every_node_and_edge_is_drawn_at_its_height(dag):
    ax = plots.dag(dag)
    circles = [patch for patch in ax.patches if isinstance(patch, Circle)]
    assert [circle.center[1] for circle in circles] == dag.order.tolist()
    assert [len(drawn.get_paths()) for drawn in ax.collections] == [dag.n_edges] * 2  # curves and their heads
    filled = [circle.get_facecolor() for circle in circles]
    assert len(set(filled[: dag.n_observed])) == 1
    assert filled[0] not in filled[dag.n_observed :]
    assert [text.get_text() for text in ax.texts] == [str(i) for i in range(dag.n_nodes)]
    assert min(text.get_fontsize() for text in ax.texts) >= 4
    for a, one in enumerate(circles):
        for other in circles[:a]:
            assert np.hypot(*np.subtract(one.center, other.center)) > 2 * one.radius
    width, height = ax.figure.get_size_inches()
    assert png_size(ax.figure) == (int(width * 50), int(height * 50))


def test_names_and_given_axes():
    dag = Dag([[0, 0, 0], [0, 0, 0], [1, 1, 0]], [0.0, 0.0, 0.5], n_observed=2)
    ax = Figure().subplots()
    assert plots.dag(dag, ax, names=["rain", "wet grass"]) is ax
    assert [text.get_text() for text in ax.texts] == ["rain", "wet grass", "2"]
    assert [text.get_text() for text in plots.dag(dag, names=["a", "b", "c"]).texts] == ["a", "b", "c"]
    assert [text.get_text() for text in plots.dag(dag, names=np.array([7, 8])).texts] == ["7", "8", "2"]
    with pytest.raises(TypeError, match="dag must be"):
        plots.dag(3)
    with pytest.raises(ValueError, match="names must hold one name for each of the 2 observed nodes"):
        plots.dag(dag, names=["rain"])


def test_prior_properties_are_exact_with_simulated_points_on_them(numbers):
    for curve in numbers["levels"]:
        for point in curve["exact"]:
            prior = ChefsProcess(point["alpha"], point["gamma"])
            assert prior.expected_nodes([0.0]) == pytest.approx(curve["nodes"])
            assert prior.expected_edges([0.0]) == pytest.approx(point["edges"])
        for point in curve["simulated"]:
            assert abs(point["nodes"] - curve["nodes"]) < 5 * point["nodes_error"]
            edges = ChefsProcess(point["alpha"], point["gamma"]).expected_edges([0.0])
            assert abs(point["edges"] - edges) < 5 * point["edges_error"]
    assert [curve["alpha"] for curve in numbers["growth"]] == [0.5, 1.0, 1.5, 2.0]
    for curve in numbers["growth"]:
        exact = {point["observed"]: point["hidden"] for point in curve["exact"]}
        assert exact[4] == pytest.approx(ChefsProcess(curve["alpha"], 1.0).expected_nodes([0.0] * 4) - 4)
        for point in curve["simulated"]:
            assert abs(point["hidden"] - exact[point["observed"]]) < 5 * point["hidden_error"]


def test_prior_properties_figure(numbers):
    figure = plots.prior_properties(numbers=numbers)
    left, middle, right = figure.axes
    assert (left.get_xlabel(), left.get_ylabel()) == ("concentration α", "mass γ")
    assert [text.get_text() for text in middle.texts] == [f"E[K⁺] = {n}" for n in (2, 3, 4, 5)]
    assert [text.get_text() for text in right.texts] == [f"α = {a}" for a in ("0.5", "1", "1.5", "2")]
    assert png_size(figure) == (525, 170)


def test_without_matplotlib_one_sentence_says_what_to_install():
    code = "import sys; sys.modules['matplotlib'] = None; import chefs; chefs.plots"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert last == "ImportError: pictures need matplotlib: pip install 'chefs[plots]'"


def test_pictures_leave_no_global_state():
    code = "import sys, chefs; chefs.plots.dag(chefs.Dag([[0]], [0.5], 1)); print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
