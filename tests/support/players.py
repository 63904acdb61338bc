"""What tests do with a player or slides in a page: go to one, and ask whether all is seen."""


def go(page, position):
    page.evaluate("at => model.set('position', at)", position)


def now(page):
    return page.evaluate("model.get('position')")


def go_to_slide(page, part):
    """Go to the first slide that has a part, and return its number and the slide."""
    slides = page.locator(".stage > main > section")
    place = [slide.locator(part).count() > 0 for slide in slides.all()].index(True) + 1
    page.evaluate(f"location.hash = '#slide-{place}'")
    page.wait_for_function(f"document.querySelector('footer output').value.startsWith('{place} ')")
    return place, page.locator("section.current")


def swipe(page, start, end, y):
    """Move a finger sideways over the screen, or tap where start and end are the same."""
    touch = page.context.new_cdp_session(page)
    for x in dict.fromkeys((start, (start + end) // 2, end)):
        kind = "touchStart" if x == start else "touchMove"
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    touch.detach()


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
