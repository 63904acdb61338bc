"""What tests do with a player in a page of its own: go to a step, and ask where it is."""


def go(page, position):
    page.evaluate("at => model.set('position', at)", position)


def now(page):
    return page.evaluate("model.get('position')")
