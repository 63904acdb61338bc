"""Reports and predictions in a JupyterLab that does not trust the notebook they are kept in."""

import nbformat
import pytest
import torch

from mha_course.exercises import check, predict


def too_large_at_one_key(q, k):
    return (q @ k.mT) * (1 + (torch.arange(k.size(2)) == 3) * 0.2)


def crashing(q, k):
    raise ValueError("x" * 5000)


@pytest.fixture
def untrusted(tmp_path):
    """Make a notebook with outputs that were not made here: ``untrusted([report, …])``."""

    def make(shown):
        cells = [nbformat.v4.new_code_cell("") for _ in shown]
        for cell, one in zip(cells, shown, strict=True):
            cell.outputs = [nbformat.v4.new_output("display_data", {"text/html": one._repr_html_()})]
        made = nbformat.v4.new_notebook(cells=cells)
        made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(made, tmp_path / "untrusted.ipynb")
        return tmp_path / "untrusted.ipynb"

    return make


def test_what_differs_is_framed_and_long_words_wrap(lab_page, untrusted):
    wrong, crashed = check("attention_scores", too_large_at_one_key), check("attention_scores", crashing)
    page = lab_page(untrusted([wrong, crashed, predict("row-sum", "z" * 5000)]), run=False)
    outputs = page.locator(".jp-OutputArea-output")
    outputs.nth(2).wait_for()
    framed = (
        outputs.nth(0)
        .locator("td td")
        .evaluate_all(
            "cells => cells.map((cell) => getComputedStyle(cell)).map((style) => style.borderTopWidth === '2px')"
        )
    )
    assert sum(framed) == 10  # a column of five rows, in yours and in the target
    for output in outputs.all():
        assert output.evaluate("box => box.scrollWidth <= box.clientWidth")
