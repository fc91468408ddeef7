"""A page as a reader and a browser have it."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """A page's text, its tables' rows with their attributes, where it links to, and what it would load.

    Tags must close, whatever the page.
    """

    VOID = ("meta", "br", "link", "img", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.links: list[str] = []
        self.rows: list[dict[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        found = dict(attrs)
        if tag == "tr" and "data-rule" in found:
            self.rows.append(found)
        # Where a reader may go is not loaded.
        self.loads += [v for k, v in attrs if v and (k == "src" or (k == "href" and tag != "a"))]
        self.links += [v for k, v in attrs if v and k == "href" and tag == "a"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)
