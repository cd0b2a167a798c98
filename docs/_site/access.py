"""What pages need so that everybody can read them, where Sphinx and its theme leave it out.

The captions of the sidebar are headings without a level, and the parameters of long signatures are definitions without
a term. What scrolls depends on the width of the window: ``site.js`` makes it reachable by keyboard.
"""

import re
from typing import Any

from sphinx.application import Sphinx

CAPTION = 'role="heading"'
SIGNATURE = re.compile(r'^<dl>\n((?:<dd><em class="sig-param">.*</dd>\n)+)</dl>$', re.MULTILINE)
# the theme fills in the sidebar in a handler of the same event, at Sphinx's default priority of 500
AFTER_THEME = 900


def captions_with_level(sidebar: str) -> str:
    """The sidebar with captions below the page's title."""
    return sidebar.replace(CAPTION, f'{CAPTION} aria-level="2"')


def signatures_as_lists(body: str) -> str:
    """The page with the parameters of long signatures as items."""
    return SIGNATURE.sub(lambda found: f'<ul class="sig-parameters">\n{_as_items(found.group(1))}</ul>', body)


def _as_items(parameters: str) -> str:
    return parameters.replace("<dd>", "<li>").replace("</dd>", "</li>")


def mend_page(app: Sphinx, name: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Called by Sphinx with the parts of every page, which it may change."""
    context["furo_navigation_tree"] = captions_with_level(context["furo_navigation_tree"])
    if "body" in context:
        context["body"] = signatures_as_lists(context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx once."""
    app.connect("html-page-context", mend_page, priority=AFTER_THEME)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
