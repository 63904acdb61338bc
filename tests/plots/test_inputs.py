"""What pictures accept: numbers and names of any kind, in one form."""

import numpy as np
import pytest
import torch

from mha_course.errors import ShapeError
from mha_course.plots.inputs import as_array, as_numbers, as_row_and_column_names
from mha_course.widgets.head_explorer.maps import read

WEIGHTS = torch.tensor([[[0.25, 0.75], [0.5, 0.5]], [[1.0, 0.0], [0.125, 0.875]]])  # (2, T, S)
ON_CPU = {
    "bfloat16": WEIGHTS.bfloat16(),
    "float8": WEIGHTS.to(torch.float8_e4m3fn),
    "gradient": WEIGHTS.clone().requires_grad_(),
    "float64": WEIGHTS.double(),
}


@pytest.mark.parametrize("kind", ON_CPU)
@pytest.mark.parametrize("form", [lambda x: x, tuple, list, lambda x: [list(row) for row in x]])
def test_tensors_of_any_kind_alone_or_in_lists(kind, form):
    assert np.array_equal(as_numbers("here", form(ON_CPU[kind])), WEIGHTS.numpy())


@pytest.mark.parametrize("form", [lambda x: x, lambda x: (x, x)])
@pytest.mark.parametrize("change", [torch.Tensor.to_sparse, lambda x: x.to("meta")])
def test_what_has_no_numbers_to_read_is_refused_in_one_form(change, form):
    with pytest.raises(ShapeError, match=r"weights must be numbers. expected a tensor"):
        as_numbers("here", form(change(WEIGHTS)))


@pytest.mark.parametrize(
    ("shape", "fix"), [((1, 4, 5, 6), "weights[0, 0]"), ((4, 5, 6), "weights[0]")]
)
def test_the_fix_leads_to_one_matrix(shape, fix):
    weights = torch.zeros(shape)
    with pytest.raises(ShapeError) as caught:
        as_array("here", weights, ("T", "S"))
    assert caught.value.fix == fix
    assert as_array("here", eval(fix), ("T", "S")).shape == (5, 6)


@pytest.mark.parametrize(
    "names",
    [
        torch.tensor([7, 8]),
        np.array([7, 8]),
        [torch.tensor(7), torch.tensor(8)],
        (str(n) for n in (7, 8)),
    ],
)
def test_names_are_read_once_and_ids_as_numbers(names):
    assert as_row_and_column_names("here", (2, 2), names, None) == (["7", "8"], ["7", "8"])


def test_the_ids_of_several_sentences_name_the_tokens_of_each():
    maps = read(WEIGHTS[:, None], queries=torch.tensor([[7, 8], [9, 10]]))  # (B, H, T, S)
    assert [queries for queries, _ in maps.tokens] == [["7", "8"], ["9", "10"]]


def test_layers_in_half_precision_sum_to_1_as_far_as_they_can():
    rows = torch.rand(3, 4, 64, 64).softmax(-1).bfloat16()
    rows[..., 0] += 3e-3  # within what bfloat16 keeps of a sum of 64
    together, one_by_one = read(rows), read(tuple(rows))
    assert together.tolerance == one_by_one.tolerance > read(rows.float()).tolerance
