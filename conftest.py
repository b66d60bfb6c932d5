"""The examples in README.md and docs/ run in a folder of their own, so that they may write files."""

import pytest


@pytest.fixture(autouse=True)
def _own_folder(request):
    if request.node.name.endswith(".md"):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
