"""How the pages become one site: `make docs`.

The source folder is the repository, so that a link between pages is the same here and where the repository is browsed.
"""

import os
import re
from pathlib import Path

os.environ["NUMBA_DISABLE_JIT"] = "1"  # compiled functions do not show their signatures

from docutils import nodes
from sphinx.addnodes import pending_xref

import chefs

project = html_title = "chefs"
author = "the chefs developers"
version = release = chefs.__version__

root_doc = "docs/index"
include_patterns = [
    "docs/**.md", "benchmarks/**.md", "src/chefs/data/ATTRIBUTION.md", "CHANGELOG.md", "CONTRIBUTING.md"
]  # fmt: skip
exclude_patterns = [".*", "out", "run", "tests", "scripts"]  # folders that need not be looked through

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_heading_anchors = 3
default_role = "py:obj"  # what docstrings have between backticks
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {
    name: name
    for name in ("ArrayLike", "BoolArray", "Edges", "FloatArray", "IntArray", "Observed", "Prior", "RandomState")
}
html_theme = "furo"
html_copy_source = html_show_copyright = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]

PUBLIC = {name: f"chefs.{name}" for name in chefs.__all__ if name[0].isupper()}


def link_names(app, doctree):
    """Where a page says `chefs.sample` or `Dag`, link it to the reference; a name that is not there stays as it is."""
    for literal in list(doctree.findall(nodes.literal)):
        target = PUBLIC.get(literal.astext(), literal.astext())
        if re.fullmatch(r"chefs(\.\w+)+", target) and not isinstance(literal.parent, nodes.reference | pending_xref):
            link = pending_xref(
                refdomain="py", reftype="obj", reftarget=target, refdoc=app.env.current_document.docname
            )
            literal.replace_self(link)
            link += literal


def let_names_break(app, doctree):
    """Within tables, long names may go on in a new line after a dot or an underscore."""
    for table in doctree.findall(nodes.table):
        for text in [text for literal in table.findall(nodes.literal) for text in literal.findall(nodes.Text)]:
            parts = [nodes.Text(part) for part in re.split(r"(?<=[._])", text)]
            pieces = [piece for part in parts for piece in (nodes.raw("", "<wbr>", format="html"), part)]
            text.parent.replace(text, pieces[1:])


def trim_examples(app, doctree):
    """Leave out the empty line that ends an example, which doctest needs and nobody else."""
    for block in doctree.findall(nodes.literal_block):
        block.rawsource = block.astext().rstrip()
        block[:] = [nodes.Text(block.rawsource)]


def name_aliases(app, what, name, obj, options, signature, returned):
    """An alias in a union is shown by its name alone."""
    return [part and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", part) for part in (signature, returned)]


def take_bars_literally(app, what, name, obj, options, lines):
    """In our formulas |x| is the size of x, not the name of a substitution."""
    lines[:] = [line.replace("|", r"\|") for line in lines]


def keep_whole_lines(app, what, name, obj, options, lines):
    """Types are in annotations: what napoleon took for the type of a property is the beginning of its first line."""
    for line in [line for line in lines if line.startswith(":type: ")]:
        lines.remove(line)
        lines[0] = f"{line.removeprefix(':type: ')}: {lines[0]}"


def lead_to_index(app, error):
    """The folder of the site opens at its first page."""
    if error is None:
        Path(app.outdir, "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={root_doc}.html">\n')


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", name_aliases)
    app.connect("autodoc-process-docstring", take_bars_literally)
    app.connect("autodoc-process-docstring", keep_whole_lines, priority=600)  # after napoleon
    app.connect("doctree-read", link_names)
    app.connect("doctree-read", let_names_break)
    app.connect("doctree-read", trim_examples)
    app.connect("build-finished", lead_to_index)
