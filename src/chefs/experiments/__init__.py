"""The tables and figures of the paper, and what else was measured: one module each. A result is never replaced."""

from __future__ import annotations


def rendered(figure, suffix: str) -> bytes:
    """A matplotlib figure as the content of a file with this ending, the same bytes for the same figure."""
    from io import BytesIO

    from matplotlib import rc_context

    buffer = BytesIO()
    dates = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with rc_context({"svg.hashsalt": "chefs"}):
        figure.savefig(buffer, format=suffix[1:], dpi=200, metadata=dates[suffix])
    return buffer.getvalue()
