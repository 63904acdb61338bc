"""Sizes of published models: the bytes of their caches against those of tensors."""

import pytest
import torch

from mha_course.lessons.l11_kv_cache import model_sizes
from mha_course.op_counter import OpCounter


def test_cache_bytes_are_those_of_tensors():
    model = model_sizes.Published("toy", 3, 4, 2, 6, 10.0, 50, "here")
    made = [torch.zeros(2, 5, 2, 7, 6, dtype=torch.float16) for _ in range(model.layers)]
    assert model.cache_bytes(7, batch=5) == sum(x.numel() * x.element_size() for x in made)
    assert model.cache_bytes(7, num_kv_heads=1, bytes_per_value=4) == 2 * 3 * 7 * 6 * 4
    # a number of 2 bytes serves 2 query heads, with a multiply-add each
    assert (model.weight_bytes, model.flops_per_byte) == (20, 2)


def test_latents_are_cached_in_the_place_of_keys_and_values():
    model = next(model for model in model_sizes.MODELS if model.latent)
    made = torch.zeros(5, 7, model.latent, dtype=torch.float16)
    assert model.cache_bytes(7, batch=5) == model.layers * made.numel() * made.element_size()
    as_heads = torch.zeros(2, 128, 128, dtype=torch.float16)  # keys and values of a token and layer
    assert (
        model.cache_bytes(1, num_kv_heads=128)
        == model.layers * as_heads.numel() * as_heads.element_size()
    )
    q, absorbed = torch.zeros(1, 128, 1, 576), torch.zeros(1, 1, 7, 576)
    with OpCounter() as counter:
        weights = q @ absorbed.mT
        weights @ absorbed[..., :512]
    assert sum(counter.flops_by_op.values()) / (7 * 576 * 2) == pytest.approx(model.flops_per_byte)


def test_local_layers_keep_no_more_than_their_window_and_a_state():
    toy = model_sizes.Published("toy", 3, 4, 2, 6, 10.0, 50, "here", local_layers=2, window=5)
    assert toy._replace(state=7).cache_bytes(1, batch=3) == toy.cache_bytes(1, batch=3) + 3 * 7 * 2
    for tokens, kept in ((4, 3 * 4), (7, 7 + 2 * 5)):  # tokens, summed over the layers
        made = torch.zeros(2, kept, 2, 6, dtype=torch.float16)
        assert toy.cache_bytes(tokens) == made.numel() * made.element_size()


def test_the_table_has_a_row_for_each_model_and_brackets_beyond_its_context():
    heads, rows = model_sizes.table((1, 131072))
    assert heads == ["model", "L", "H", "G", "D", "1", "128k", "weights"]
    assert [row[0] for row in rows] == [model.name for model in model_sizes.MODELS]
    assert ["Llama 3 8B", 32, 32, 8, 128, "128 KiB", "16.0 GiB", "14.9 GiB"] in rows
    assert ["GPT-2 XL", 48, 25, 25, 64, "300 KiB", "(37.5 GiB)", "2.90 GiB"] in rows
