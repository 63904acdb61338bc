"""What tests do with a player in a page of its own: go to a step, and ask where it is and whether all is seen."""


def go(page, position):
    page.evaluate("at => model.set('position', at)", position)


def now(page):
    return page.evaluate("model.get('position')")


def stays_inside(page, around):
    """Demand that nothing on the stage leaves the part of the player that it stands in, and that all fits the page."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(
        """(around) => [...document.querySelectorAll('.stage *')].every((node) => {
             if (node.offsetWidth === 0) return true;
             const [inner, outer] = [node, node.closest(around)].map((one) => one.getBoundingClientRect());
             return inner.left >= outer.left && inner.right <= outer.right && inner.bottom <= outer.bottom; })""",
        around,
    )
