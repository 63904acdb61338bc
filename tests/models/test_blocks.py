"""The encoder block against PyTorch's layer; the stacks, and training that repeats exactly."""

import copy

import pytest
import torch
from rewriting import fails
from torch import nn
from torch.nn import functional as F

from mha_course import masks, models
from mha_course.errors import ShapeError
from mha_course.models import Encoder, EncoderBlock, MaskedWordModel

B, S, C, H, D_FF, L, V = 2, 5, 24, 4, 10, 3, 17
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
LENGTHS = [5, 3]  # words of each sentence
# What may be attended to, as ours takes it and as PyTorch's layer does, where True = ignore.
MASKS = {
    "none": (None, {}),
    "causal": (masks.causal_mask(S), {"src_mask": ~masks.causal_mask(S)}),
    "padding": (
        masks.padding_mask(LENGTHS, S),
        {"src_key_padding_mask": ~masks.padding_mask(LENGTHS, S)[:, 0, 0]},
    ),
    "per sentence": (
        masks.combine_masks(masks.causal_mask(S), masks.padding_mask(LENGTHS, S)),
        {
            "src_mask": ~masks.causal_mask(S),
            "src_key_padding_mask": ~masks.padding_mask(LENGTHS, S)[:, 0, 0],
        },
    ),
}


def block_of(cls=EncoderBlock, *, norm_first=True, dropout=0.0, dtype=torch.float64, device="cpu"):
    torch.manual_seed(0)
    block = cls(C, H, D_FF, norm_first=norm_first, dropout=dropout)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return block.to(device=device, dtype=dtype)


def passes(module, x, target, options):
    """Return the output of a module, the gradient at x, and the sum of those at weights."""
    x = x.clone().requires_grad_()
    out = module(x, **options)
    gradients = torch.autograd.grad((out * target).sum(), [x, *module.parameters()])
    norm = torch.stack([gradient.square().sum() for gradient in gradients[1:]]).sum()
    return out.detach(), gradients[0], norm


def equals_torchs_layer(
    cls, name="per sentence", norm_first=True, dtype=torch.float64, device="cpu"
):
    """Demand that a block computes what PyTorch's layer computes, forward and backward."""
    mask, options = MASKS[name]
    generator = torch.Generator().manual_seed(1)
    x, target = torch.randn(2, B, S, C, generator=generator, dtype=torch.float64).to(device, dtype)
    block = block_of(cls, norm_first=norm_first, dtype=dtype, device=device)
    ours = passes(block, x, target, {"mask": None if mask is None else mask.to(device)})
    options = {key: value.to(device) for key, value in options.items()}
    theirs, tolerance = EncoderBlock.to_torch(block), TOLERANCE[dtype]
    assert theirs.norm_first == norm_first
    for mine, other in zip(ours, passes(theirs, x, target, options), strict=True):
        assert mine.dtype == other.dtype
        assert torch.allclose(mine, other, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
@pytest.mark.parametrize("name", MASKS)
def test_a_block_equals_pytorchs_layer(name, norm_first, dtype, device):
    equals_torchs_layer(EncoderBlock, name, norm_first, dtype, device)


class MaskIgnored(EncoderBlock):
    def forward(self, x, mask=None):
        return super().forward(x)


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
def test_what_is_said_to_enter_the_attention_enters_it(norm_first):
    block = block_of(norm_first=norm_first)
    entered = []
    block.attention.register_forward_pre_hook(lambda _, inputs: entered.append(inputs[0]))
    x = torch.arange(B * S * C, dtype=torch.float64).view(B, S, C).sin()
    block(x)
    assert torch.equal(block.attention_input(x), entered[0])


def test_a_wrong_block_differs():
    assert fails(equals_torchs_layer, MaskIgnored)


def test_dropout_is_there_in_training_alone(device):
    block = block_of(dropout=0.5, device=device)
    x = torch.ones(B, S, C, dtype=torch.float64, device=device)
    assert not torch.equal(block(x), block(x))
    assert torch.equal(block.eval()(x), block(x))
    assert torch.allclose(block(x), block_of(device=device)(x))
    theirs = block.train().to_torch()
    assert theirs.training
    assert (
        theirs.dropout.p
        == theirs.dropout1.p
        == theirs.dropout2.p
        == theirs.self_attn.dropout
        == 0.5
    )


def test_dropout_stands_where_pytorch_has_it():
    """Where attention and feed-forward add a constant, only its dropout is left."""
    block = block_of(dropout=0.5)
    with torch.no_grad():
        for last in (block.attention.out_proj, block.feed_forward[3]):
            last.weight.zero_()
            last.bias.fill_(1.0)
    x = torch.zeros(40, S, C, dtype=torch.float64)
    assert block(x).unique().tolist() == [0.0, 2.0, 4.0]  # each part adds 0 or 1 / 0.5


# Stacks


def test_an_encoder_equals_pytorchs(draw, device):
    torch.manual_seed(3)
    ours = Encoder(C, H, D_FF, L).double().to(device)
    theirs = nn.TransformerEncoder(
        ours.blocks[0].to_torch(), L, norm=ours.norm, enable_nested_tensor=False
    )
    for layer, block in zip(theirs.layers, ours.blocks, strict=True):
        layer.load_state_dict(block.to_torch().state_dict())
    x, hidden = draw(B, S, C, device=device), ~masks.causal_mask(S, device=device)
    assert torch.allclose(ours(x, ~hidden), theirs(x, hidden), rtol=0, atol=1e-12)
    weights = ours.attention_weights(x, ~hidden)
    assert weights.shape == (L, B, H, S, S)
    inputs = ours.attention_inputs(x, ~hidden)
    for layer, (inside, theirs_layer) in enumerate(zip(inputs, theirs.layers, strict=True)):
        _, want = theirs_layer.self_attn(
            inside, inside, inside, attn_mask=hidden, average_attn_weights=False
        )
        assert torch.allclose(weights[layer], want, rtol=0, atol=1e-12)


def words(*shape, device="cpu", seed=5):
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed)).to(device)


def test_a_masked_word_model_reads_both_ways_and_no_padding(device):
    torch.manual_seed(6)
    model = (
        MaskedWordModel(V, 9, d_model=C, num_heads=H, d_ff=D_FF, num_layers=L).double().to(device)
    )
    ids, mask = words(B, S, device=device), masks.padding_mask(LENGTHS, S).to(device)
    logits = model(ids, mask)
    assert logits.shape == (B, S, V)
    places = model.embed(ids, start=2) - model.token_embedding(ids)
    assert torch.allclose(places, model.position_embedding.weight[2 : 2 + S])
    changed = ids.clone()
    changed[:, 2] = (changed[:, 2] + 1) % V
    assert (model(changed, mask) != logits).any(-1)[0].all()  # before and after
    changed = ids.clone()
    changed[1, 3:] = (changed[1, 3:] + 1) % V
    assert torch.equal(model(changed, mask)[1, :3], logits[1, :3])
    with pytest.raises(ShapeError, match=r"MaskedWordModel: .* got S=10"):
        model(words(B, 10, device=device))


# Training


def trained(seed=7, steps=12):
    torch.manual_seed(seed)
    model = MaskedWordModel(V, 11, d_model=C, num_heads=H, d_ff=D_FF, num_layers=L).double()
    generator = torch.Generator().manual_seed(seed)

    def batches():
        while True:
            ids = (torch.randint(V, (8, 1), generator=generator) + torch.arange(7)) % V
            yield ids[:, :-1], ids[:, 1:]

    def loss(model, ids, targets):
        return F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())

    return model, models.train(model, batches(), loss, steps=steps, lr=0.01, progress=False)


def test_training_twice_gives_the_same_bits():
    (one, losses), (other, again) = trained(), trained()
    assert losses == again
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert trained(seed=8)[1] != losses
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert trained()[1] == losses  # it works on one thread, whatever is set
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_training_learns_and_takes_the_steps_asked_for():
    model, losses = trained(steps=60)
    assert len(losses) == 60
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])
    before = copy.deepcopy(model.state_dict())
    assert models.train(model, [], F.mse_loss, steps=3, lr=0.1, progress=False) == []
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_the_loss_of_masked_words_counts_chosen_places_alone():
    logits = torch.randn(B, S, V, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    targets = torch.full((B, S), -100)
    targets[0, 1], targets[1, 4] = 3, 11
    got = models.masked_word_loss(lambda ids, mask: logits, targets, targets, targets)
    assert torch.allclose(got, -logits.log_softmax(-1)[[0, 1], [1, 4], [3, 11]].mean())
