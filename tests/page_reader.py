"""Reading a page back: tags closed in order, nothing fetched from anywhere, nothing that runs."""

import re
from html.parser import HTMLParser

VOID = {"meta", "img", "source", "br", "hr", "link", "input"}


class Checker(HTMLParser):
    """Collects tags and text; fails on tags that are not closed in order."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.text, self.references, self.sections = [], [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for key, value in attributes:
            if key in ("src", "href", "srcset"):
                self.references.append(value)
            assert not key.startswith("on")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
        if self.open and self.open[-1] == "h2":
            self.sections.append(data)

    @property
    def words(self):
        return "".join(self.text)


def read(path):
    """(source, page) of a page that is whole, self-contained and without scripts."""
    text = path.read_text("utf-8")
    page = Checker()
    page.feed(text)
    page.close()
    assert page.open == []
    assert not re.search(r"https?://", text)
    assert "script" not in page.tags
    return text, page
