"""For the examples in these pages; conf.py is for Sphinx, and would switch off the compiler for all of them."""

import pytest

collect_ignore = ["conf.py"]


@pytest.fixture(autouse=True)
def _compile_first(request):
    """The workers of a cluster are to find compiled code: else each of them compiles, for a minute."""
    if request.node.name == "machines.md":
        from chefs.network.estimator import have_compiled

        have_compiled()
