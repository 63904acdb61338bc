"""The tags of a page of HTML."""

from html.parser import HTMLParser


class Tags(HTMLParser):
    """The tags of a page in their order, each with its attributes."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def names(self):
        return [tag for tag, _ in self.found]

    def of(self, name, attribute):
        return [attrs[attribute] for tag, attrs in self.found if tag == name and attribute in attrs]
