"""Formulas of the site as MathML, made while it is built: browsers show them without a script and without a network.

The translation from TeX is that of docutils, on which Sphinx is built. A formula that it cannot translate is a warning.
"""

import re
from html import escape
from typing import Any

from docutils.nodes import SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

LOG = logging.getLogger(__name__)
NAME = re.compile(r"\\tag\{([^{}]*)\}")
# docutils sets "x log y" without spaces, and primes as straight quotes with the space of an operator
BEFORE_NAME = re.compile(r"(</mi>|\)</mo>)(\s*<mi>(?:log|exp)</mi>)")
AFTER_NAME = re.compile(r"<mo>&ApplyFunction;</mo>(?!\s*(<mrow>|<mo stretchy))")
THIN_SPACE = '<mspace width="0.17em"></mspace>'
PRIME = "<mo>'</mo>"


def show_inline(translator: Any, node: Any) -> None:
    """Called by Sphinx for a formula in a sentence."""
    translator.body.append(f'<span class="math">{to_mathml(node, node.astext(), as_block=False)}</span>')
    raise SkipNode


def show_displayed(translator: Any, node: Any) -> None:
    """Called by Sphinx for a formula on lines of its own; the argument of ``\\tag`` is shown at the right margin."""
    before, *rest = NAME.split(node.astext())
    name = f'<span class="formula-name">({escape(rest[0])})</span>' if rest else ""
    formula = to_mathml(node, before + "".join(rest[1:]), as_block=True)
    translator.body.append(f'<div class="math">{formula}{name}</div>\n')
    raise SkipNode


def to_mathml(node: Any, tex: str, as_block: bool) -> str:
    """The MathML of a formula, or its source where docutils cannot translate it."""
    try:
        mathml = BEFORE_NAME.sub(rf"\1{THIN_SPACE}\2", tex2mathml(tex, as_block))
        mathml = AFTER_NAME.sub(THIN_SPACE, mathml)
        return mathml.replace(PRIME, '<mo lspace="0" rspace="0">&prime;</mo>')
    except MathError as error:
        LOG.warning("cannot translate the formula %s: %s", tex, error, location=node)
        return f"<code>{escape(tex)}</code>"


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx once."""
    app.add_html_math_renderer("mathml", (show_inline, None), (show_displayed, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
