"""A page of a report, parsed."""

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input", "path", "wbr"}


class Page(HTMLParser):
    """Checks that tags are balanced, and keeps the words, headings and attributes."""

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.attributes, self.tags, self.scripts = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open, f"</{tag}> without a start"
            assert self.open.pop() == tag

    def handle_data(self, data):
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            self.scripts.append(data)
        elif inside != "style":
            self.words.append(data)

    @property
    def policy(self):
        return next(value for _, value in self.attributes if value and value.startswith("default-src"))

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words)).replace("top‑1", "top-1")
