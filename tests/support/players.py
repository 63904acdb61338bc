"""What tests do with a player in a page: go to a step, and ask whether all is seen."""


def go(page, position):
    page.evaluate("at => model.set('position', at)", position)


def now(page):
    return page.evaluate("model.get('position')")


def stays_inside(page, around, parts=".stage *", by=0, below=False):
    """Demand that no part leaves its box, but by some pixels, or below downwards."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    outside = """([around, parts, by, below]) =>
  [...document.querySelectorAll(around)].flatMap((whole) => {
      const outer = whole.getBoundingClientRect();
      return [...whole.querySelectorAll(parts)].filter((node) => {
        const { width, left, right, bottom } = node.getBoundingClientRect();
        const under = !below && bottom > outer.bottom + by;
        const aside = left < outer.left - by || right > outer.right + by;
        return width && node.checkVisibility() && (aside || under);
      }).map((node) => [node.tagName, node.textContent.slice(0, 30)]);
    })"""
    assert page.evaluate(outside, [around, parts, by, below]) == []
