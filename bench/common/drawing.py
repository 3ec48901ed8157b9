"""Pictures as SVG files that are the same for the same figures."""

from __future__ import annotations

from typing import Any


def svg_pyplot(font_size: float = 8) -> Any:
    """matplotlib's pyplot for SVG, imported at the first drawing."""
    import matplotlib as mpl

    mpl.use("svg")
    # Text is stored as text, and two drawings of the same figures give the same file.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "ballast", "font.size": font_size})
    from matplotlib import pyplot as plt

    return plt
