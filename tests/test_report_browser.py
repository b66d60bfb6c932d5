"""The report in a real browser: it loads without a complaint, and answers the mouse and the keyboard."""

import os
import re

import pytest

from chefs.report import write, write_search
from tests import browser
from tests.reports import table, usual, with_picked


@pytest.fixture(scope="module")
def chromium():
    if browser.find() is None:
        if os.environ.get("CHEFS_BROWSER") == "required":
            pytest.fail(
                "CHEFS_BROWSER is 'required', and there is no Chromium: apt-get install chromium-headless-shell"
            )
        pytest.skip("no Chromium here: apt-get install chromium-headless-shell, or set CHEFS_CHROMIUM to its path")
    with browser.Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A page of every kind, made once."""
    folder = tmp_path_factory.mktemp("pages")
    names = ("x", "<b>y</b>")
    rows = table(names)
    network = write(usual(names), folder / "network.html", train=rows, test=rows[:9])
    return {"network": network, "search": write_search(with_picked(), folder / "search.html")}


@pytest.fixture
def page(chromium, written):
    chromium.resize(1100, 900)
    chromium.look("light")
    chromium.open(written["network"])
    return chromium


CONSENSUS = "document.querySelector('#structures figure.network svg.graph')"


def tip(page):
    return page.run("document.getElementById('tip').hidden ? null : document.getElementById('tip').textContent")


def middle_of(page, part):
    """A point on an edge that no other part of the graph covers, in the window."""
    found = page.run(
        f"""(() => {{
            const edge = {part}, line = edge.querySelector("path");
            edge.closest("svg").scrollIntoView({{ block: "center" }});
            for (const t of [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8]) {{
                const at = line.getPointAtLength(t * line.getTotalLength()).matrixTransform(line.getScreenCTM());
                if (document.elementFromPoint(at.x, at.y)?.closest(".edge") === edge) return [at.x, at.y];
            }}
        }})()"""
    )
    assert found, "the edge is covered"
    return found


@pytest.mark.parametrize("kind", ["network", "search"])
@pytest.mark.parametrize("width", [1100, 420])
def test_pages_load_without_a_complaint_and_fit_the_window(chromium, written, kind, width):
    chromium.resize(width, 800)
    chromium.open(written[kind])
    assert chromium.errors == [] and chromium.requests == [written[kind].as_uri()]
    sizes = chromium.run(
        "[...document.querySelectorAll('svg')].map((svg) => [svg.getBoundingClientRect().width, svg.childElementCount])"
    )
    assert len(sizes) > 10 and all(size > 50 and parts > 0 for size, parts in sizes)
    assert chromium.run("document.documentElement.scrollWidth") <= width


def test_a_complaint_would_be_heard(chromium, tmp_path):
    (tmp_path / "bad.html").write_text("<script>nothing.here</script><img src='missing.png'>")
    chromium.open(tmp_path / "bad.html")
    assert any("nothing is not defined" in str(error) for error in chromium.errors)
    assert len(chromium.requests) == 2


def test_pointing_at_an_edge_shows_its_probability_and_weight(page):
    assert tip(page) is None
    part = f"[...{CONSENSUS}.querySelectorAll('.edge')].find((e) => e.dataset.tip.includes('0.75'))"
    words = page.run(f"{part}.dataset.tip")
    page.point_at(*middle_of(page, part))
    assert tip(page) == words and re.search(r"probability 0\.75, weight [+−]\d\.\d\d", words)
    page.point_at(2, 2)
    assert tip(page) is None


def test_pointing_at_a_node_leaves_its_edges_alone(page):
    page.run(f"{CONSENSUS}.scrollIntoView({{ block: 'center' }})")
    box = page.run(f"(() => {{ const b = {CONSENSUS}.querySelector('.node.observed').getBoundingClientRect();"
                   "return [b.left + b.width / 2, b.top + b.height / 2] })()")  # fmt: skip
    page.point_at(*box)
    assert "a column of the data" in tip(page)
    faded = f"[...{CONSENSUS}.querySelectorAll('.edge')].map((e) => [e.dataset.to, getComputedStyle(e).opacity])"
    assert {(to == "0", float(opacity) < 0.5) for to, opacity in page.run(faded)} == {(True, False), (False, True)}
    wide = f"[...{CONSENSUS}.querySelectorAll('.hit')].map((path) => getComputedStyle(path).strokeOpacity)"
    assert set(page.run(wide)) == {"0"}  # what makes a line easy to hit is never seen


def test_names_are_shown_and_not_run(page):
    assert page.run("document.querySelectorAll('main b b, svg b').length") == 0
    assert page.run(f"{CONSENSUS}.textContent").count("<b>y</b>") == 1


def test_a_draw_that_is_picked_is_shown(page):
    assert page.run("document.getElementById('pick').options.length") == 24
    graph = "document.querySelector('#picked svg').outerHTML"
    first = page.run(graph)
    assert re.search(r"Chain 1, draw \d+:", first)
    page.run("document.getElementById('pick').focus()")
    page.press("ArrowDown")
    second = page.run(graph)
    assert second != first and page.run("document.getElementById('pick').value") == "1"
    page.run("document.getElementById('later').click()")
    assert page.run(graph) not in (first, second)
    page.run("document.getElementById('earlier').click(); document.getElementById('earlier').click()")
    assert page.run(graph) == first and page.run("document.getElementById('earlier').disabled")
    part = "document.querySelector('#picked .edge')"
    page.point_at(*middle_of(page, part))
    assert re.search(r"weight [+−]\d\.\d\d in this draw, probability \d\.\d\d over all", tip(page))
    assert page.errors == []


def test_an_architecture_that_is_picked_is_shown(chromium, written):
    chromium.resize(1100, 900)
    chromium.open(written["search"])
    texts = chromium.run("[...document.getElementById('pick').options].map((option) => option.textContent)")
    assert [text.partition(":")[0] for text in texts] == ["chain 1, draw 1", "chain 2, draw 5", "chain 15, draw 300"]
    sizes = [re.search(r"(\d+) layers, (\d+) edges, test accuracy 0\.\d{4}$", text).groups() for text in texts]
    assert len(set(sizes)) == 3
    parts = "['.hidden', '.edge'].map((kind) => document.querySelectorAll('#picked svg ' + kind).length)"
    for j, size in enumerate(sizes):
        assert chromium.run(parts) == list(map(int, size))
        assert chromium.run("document.getElementById('later').disabled") == (j == 2)
        chromium.run("document.getElementById('later').click()")
    chromium.run("document.getElementById('pick').focus()")
    chromium.press("ArrowUp")
    assert chromium.run(parts) == list(map(int, sizes[1]))
    chromium.point_at(*middle_of(chromium, "[...document.querySelectorAll('#picked .edge')].pop()"))
    assert re.search(r"→ \w+: (\d+ maps|pixels)$", tip(chromium))
    assert chromium.errors == []


def test_a_graph_can_be_read_with_the_keyboard_alone(page):
    for _ in range(30):  # Tab comes to the graph, whatever is before it
        page.press("Tab")
        if page.run(f"document.activeElement === {CONSENSUS}"):
            break
    assert page.run(f"document.activeElement === {CONSENSUS}")
    read = []
    for _ in range(12):
        page.press("ArrowRight")
        read.append(tip(page))
    parts = page.run(f"{CONSENSUS}.querySelectorAll('.tip').length")
    assert len(set(read)) == min(12, parts) == 8 and any("probability" in words for words in read)
    page.press("Home")
    assert tip(page) == read[0]
    page.press("Escape")
    assert tip(page) is None


def test_weak_edges_can_be_hidden(page):
    shown = f"[...{CONSENSUS}.querySelectorAll('.edge')].filter((e) => getComputedStyle(e).display !== 'none').length"
    before = page.run(shown)
    page.run(
        "(() => { const s = document.querySelector('.least'); s.value = 0.9; s.dispatchEvent(new Event('input')) })()"
    )
    assert (before, page.run(shown)) == (4, 2)
    assert (
        page.run("document.querySelector('.least').parentElement.querySelector('output').textContent")
        == "0.90 (2 of 4)"
    )


def luminance(page, what):
    colour = page.run(f"getComputedStyle(document.querySelector('{what}')).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 765


def test_dark_is_dark_and_paper_is_white(page):
    light, light_ink = luminance(page, "body"), page.run("getComputedStyle(document.body).color")
    page.look("dark")
    assert light > 0.9 and luminance(page, "body") < 0.2
    assert page.run("getComputedStyle(document.body).color") != light_ink
    page.look("dark", "print")
    assert luminance(page, "body") == 1.0
    assert not page.run("document.querySelector('nav').checkVisibility()")
    assert page.pdf().startswith(b"%PDF")


def test_contrast_of_text_is_enough_in_light_and_dark(page):
    """At least 4.5 to 1, as the guidelines for accessible pages ask, for every colour of words."""
    contrast = """(() => {
        const parse = (c) => c.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255);
        const lin = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        const lum = (c) => { const [r, g, b] = parse(c).map(lin); return 0.2126 * r + 0.7152 * g + 0.0722 * b };
        const worst = [];
        for (const e of document.querySelectorAll("h2, p, figcaption, th, td, a, .mark, summary, .verdict li")) {
            let under = e;
            while (getComputedStyle(under).backgroundColor === "rgba(0, 0, 0, 0)") under = under.parentElement;
            const a = lum(getComputedStyle(e).color), b = lum(getComputedStyle(under).backgroundColor);
            worst.push((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
        }
        return Math.min(...worst);
    })()"""
    for scheme in ("light", "dark"):
        page.look(scheme)
        assert page.run(contrast) > 4.5
