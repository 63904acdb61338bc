"""The summary of Part I: its code and its shapes are right, and it prints on one sheet."""

import html
import re

import torch

from mha_course.attention import MultiHeadAttention
from mha_course.lessons.l07_multi_head_attention.summary import PAGE
from mha_course.masks import causal_mask

SIZES = {"B": 2, "S": 5, "T": 5, "C": 24, "H": 4, "D": 6}


def test_its_code_computes_what_the_reference_does(draw):
    code = re.search(r"<pre>(.*?)</pre>", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    space = {"torch": torch}
    exec(html.unescape(code), space)
    mha = MultiHeadAttention(SIZES["C"], SIZES["H"], bias=False).double()
    parameters = [
        linear.weight.detach() for linear in (mha.q_proj, mha.k_proj, mha.v_proj, mha.out_proj)
    ]
    x = draw(*(SIZES[letter] for letter in "BSC"))
    for mask in (None, causal_mask(SIZES["S"])):
        results = space["multi_head_attention"](x, *parameters, SIZES["H"], mask)
        for got, want in zip(results, mha(x, mask=mask), strict=True):
            assert torch.allclose(got, want, atol=1e-12)


def test_its_shapes_are_those_of_a_pass(draw):
    mha = MultiHeadAttention(SIZES["C"], SIZES["H"]).double()
    steps = mha.steps(draw(*(SIZES[letter] for letter in "BSC")))
    page = PAGE.read_text(encoding="utf-8").replace("<wbr>", "")
    rows = re.findall(r"<td><code>([\w ]+)</code></td><td>\((.*?)\)</td>", page)
    assert len(rows) == 7
    for names, axes in rows[1:]:  # the first are q, k and v before they are split
        shape = tuple(SIZES[letter] for letter in axes.split(", "))
        assert all(getattr(steps, name).shape == shape for name in names.split())
    assert rows[0] == ("q k v", "B, S, C")


def test_it_prints_on_one_sheet(new_page):
    page = new_page(width=1280, height=1600)
    page.goto(PAGE.as_uri())
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True))) == 1
    assert page.evaluate("document.body.scrollHeight") > 700  # it is not empty
