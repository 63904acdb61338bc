"""Options and fixtures that all tests share: devices, numbers, a browser, JupyterLab in it."""

import os
import re

import browsing
import elsewhere
import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
import torch
from rewriting import numbers

mpl.use("agg")
# files are tested side by side, and on a busy machine small tensors wait long for a thread
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # also in kernels
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def pytest_collection_modifyitems(config, items):
    """Mark tests that need a browser; they may time out once, and the summary says so."""
    again = config.pluginmanager.hasplugin("rerunfailures")
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
            if again:
                item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(params=DEVICES)
def device(request):
    """Each device of this machine; numbers are drawn on the CPU and moved."""
    return request.param


@pytest.fixture
def draw():
    """Draw normal numbers of a shape, the same in every run: ``draw(2, 5, seed=1)``."""
    return numbers


@pytest.fixture(autouse=True)
def no_figures_left():
    """No test sees another test's figures."""
    yield
    plt.close("all")


@pytest.fixture(autouse=True)
def nobodys_progress(request, monkeypatch):
    """Keep what tests answer out of any progress file; notebooks that run show an empty one."""
    if request.path.stem not in ("test_notebooks", "test_elsewhere"):
        monkeypatch.setenv("MHA_COURSE_PROGRESS", "off")


@pytest.fixture(scope="module")
def browser():
    """Chromium, driven by Playwright; if one of them is missing, a line says so.

    For a module, not for the session: while Playwright runs, asyncio sees a running loop in this
    thread.
    """
    reason = "browser tests need Playwright: pip install -r tests/requirements.txt"
    playwright = pytest.importorskip("playwright.sync_api", reason=reason)
    if browsing.CHROMIUM is None:
        pytest.skip("browser tests need chromium or google-chrome on the path")
    with playwright.sync_playwright() as player:
        chromium = player.chromium.launch(
            executable_path=browsing.CHROMIUM, args=browsing.ARGUMENTS
        )
        yield chromium
        chromium.close()


@pytest.fixture
def new_page(browser):
    """Open an empty page; a script error in it fails the test."""
    pages, errors = [], []

    def open_page(width=1280, height=800, **options):
        page = browser.new_page(viewport={"width": width, "height": height}, **options)
        page.on("pageerror", lambda error: errors.append(str(error)))
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert not errors


@pytest.fixture
def offline_page(new_page):
    """Open a file that can read only its own folder: ``offline_page(path, width=1280)``.

    ``page.complaints`` has the requests that failed, and what its console says.
    """

    def open_file(file, **options):
        page = new_page(**options)
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text))

        def allow(route):
            if route.request.url.startswith(file.parent.as_uri()):
                return route.continue_()
            page.complaints.append(route.request.url)
            return route.abort()

        page.route(re.compile("^(?!data:)"), allow)
        page.goto(file.as_uri())
        return page

    return open_file


@pytest.fixture
def widget_page(new_page, tmp_path):
    """Draw a widget that needs no kernel in its own page: ``widget_page(widget, width=1280)``.

    In the page ``model`` is the model, ``draw(id)`` draws one more view, into #one or #two, and
    returns what tidies it up, and ``leaked`` are the keys that went on to the document. With
    capture, it listens before the widget does, as JupyterLab may.
    """

    def open_page(widget, capture=False, **options):
        file = tmp_path / "page.html"
        file.write_text(browsing.page_of(widget, capture), encoding="utf-8")
        page = new_page(**options)
        page.goto(file.as_uri())
        page.wait_for_selector("[data-ready]")
        page.wait_for_timeout(50)  # until it has its size
        return page

    return open_page


@pytest.fixture(scope="session")
def colab_versions(tmp_path_factory):
    """A folder with Colab's versions, to come before the installed packages."""
    folder = tmp_path_factory.mktemp("colab")
    trouble = elsewhere.install(folder)
    if trouble:
        pytest.skip(f"Colab's versions cannot be had: {trouble}")
    return folder


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """One JupyterLab for all tests: a ``browsing.Lab``."""
    server = browsing.Lab(tmp_path_factory.mktemp("lab"))
    yield server
    server.stop()


@pytest.fixture
def lab_page(new_page, lab):
    """Run a notebook in JupyterLab, and return its page: ``lab_page(["1 + 1", "2 + 2"])``.

    Cells are sources, or a path to a notebook, which is copied. It returns when all cells have run
    and the kernel is idle. With dark=True in the dark theme, with run=False nothing is run, with
    windowing=True what is out of sight is not laid out, as people have it; width, height and
    further options go to the page, where ``jupyterapp`` is JupyterLab itself.
    """
    pages = []

    def open_page(cells, *, dark=False, run=True, windowing=False, **options):
        page = new_page(**options)
        pages.append(page)
        lab.open(page, cells, dark=dark, run=run, windowing=windowing)
        return page

    yield open_page
    for page in pages:
        lab.leave(page)
