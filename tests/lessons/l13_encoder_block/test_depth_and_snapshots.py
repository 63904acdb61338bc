"""What lesson 13 shows: stacks at depth, a model while it learns, pictures of a block."""

import itertools

import pytest
import torch
from matplotlib import colors
from torch.nn import functional as F

from mha_course import example, models, plots
from mha_course.datasets import grammar
from mha_course.experiments import head_analysis
from mha_course.lessons.l13_encoder_block import depth, training_snapshots
from mha_course.lessons.l13_encoder_block.pictures import block_readings, norm_groups

# Depth


def test_gradients_at_depth_are_those_of_autograd():
    """Rebuild the draw; return the gradients at each block's input and last matrix."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        stack = depth.blocks(2)
        to_words = torch.nn.Linear(depth.WIDTH, depth.WORDS, dtype=torch.float64)
        torch.nn.init.xavier_uniform_(to_words.weight)
        x = torch.randn(
            depth.SENTENCES, depth.TOKENS, depth.WIDTH, dtype=torch.float64, requires_grad=True
        )
        targets = torch.randint(depth.WORDS, (depth.SENTENCES * depth.TOKENS,))
    first = stack[0](x)
    last = stack[1](first)
    loss = F.cross_entropy(to_words(F.layer_norm(last, (depth.WIDTH,))).flatten(0, 1), targets)
    matrices = [block.feed_forward[3].weight for block in stack]
    wanted = [
        float(gradient.norm())
        for gradient in torch.autograd.grad(loss, [x, first, last, *matrices])
    ]
    measured = depth.measure(depth.pre_norm, 2, last_norm=True, draws=1)
    lengths = torch.cat((measured.at_x[0], measured.at_weights[0]))
    assert lengths.tolist() == pytest.approx(wanted)


def test_depth_has_a_number_for_each_place_in_each_draw():
    before = torch.get_rng_state()
    measured = depth.measure(depth.pre_norm, 3, draws=2)
    assert [column.shape for column in measured] == [(2, 4), (2, 4), (2, 4), (2, 3)]
    assert torch.equal(before, torch.get_rng_state())
    assert (measured.rms[:, 0] - 1).abs().max() < 0.03
    first, second = measured.cosine
    assert not torch.allclose(first, second, atol=1e-3)
    (alone,) = depth.measure(depth.pre_norm, 3, draws=1).cosine
    assert torch.equal(first, alone)


def test_what_is_passed_by_gets_no_gradient():
    measured = depth.measure(lambda block, x: x, 2, draws=1)
    assert measured.at_weights.tolist() == [[0.0, 0.0]]
    assert measured.at_x[0, 0] == measured.at_x[0, 2] > 0
    doubled = depth.measure(lambda block, x: 2 * x, 2, draws=1)
    assert torch.allclose(doubled.rms[:, 2], 4 * doubled.rms[:, 0])
    assert torch.allclose(doubled.cosine[:, 2], measured.cosine[:, 0])
    assert torch.allclose(doubled.at_x[:, 0], 4 * doubled.at_x[:, 2])


def test_wirings_are_those_of_the_block(draw):
    x, (block,) = draw(2, 7, depth.WIDTH), depth.blocks(1)
    with torch.no_grad():
        block.norm1.weight.copy_(draw(depth.WIDTH))  # so that the two norms differ
        assert torch.allclose(depth.pre_norm(block, x), block(x))
        post = models.EncoderBlock(depth.WIDTH, depth.HEADS, depth.INNER, norm_first=False).double()
        post.load_state_dict(block.state_dict())
        assert torch.allclose(depth.post_norm(block, x), post(x))
        for name in ("norm1", "norm2"):
            setattr(block, name, torch.nn.Identity())
        assert torch.allclose(depth.sums_alone(block, x), block(x))
        assert torch.allclose(depth.norms_alone(block, x), depth.bare(block, x))
        block.feed_forward = torch.nn.Identity()
        assert torch.allclose(depth.bare(block, x), block.attention(x)[0])


def test_mean_cosine_is_the_mean_cosine_of_pairs(draw):
    x = draw(2, 5, 24) + 0.5
    pairs = [
        F.cosine_similarity(x[b, s], x[b, t], dim=0)
        for b in range(2)
        for s, t in itertools.combinations(range(5), 2)
    ]
    assert depth.mean_cosine(x) == pytest.approx(float(torch.stack(pairs).mean()))
    assert depth.mean_cosine(x[:, :1].expand(2, 5, 24)) == pytest.approx(1)


def test_blocks_are_drawn_as_said():
    (block,) = depth.blocks(1)
    for weight in (
        block.attention.q_proj.weight,
        block.feed_forward[0].weight,
        block.feed_forward[3].weight,
    ):
        assert weight.dtype == torch.float64
        bound = (6 / sum(weight.shape)) ** 0.5  # Glorot and Bengio 2010, equation 16
        assert 0.95 * bound < weight.abs().max() <= bound
    assert not any(p.any() for name, p in block.named_parameters() if name.endswith("bias"))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        stack = depth.blocks(8, "GPT-2")
        torch.manual_seed(0)
        (left,) = depth.blocks(1, "torch")
        torch.manual_seed(0)
        fresh = models.EncoderBlock(depth.WIDTH, depth.HEADS, depth.INNER).double()
    matrices = ("attention.k_proj", "feed_forward.0", "attention.out_proj", "feed_forward.3")
    spreads = [
        torch.stack([block.get_parameter(f"{name}.weight") for block in stack]).std().item()
        for name in matrices
    ]
    assert spreads == pytest.approx([0.02, 0.02, 0.005, 0.005], rel=0.03)  # 16 sums in 8 blocks
    assert all(map(torch.equal, left.parameters(), fresh.parameters()))


# Watching


def test_a_snapshot_holds_what_the_measures_say():
    model, texts = example.trained_model(), grammar.sentences(300, "test", seed=2)
    snapshot = training_snapshots.snapshot(model, 3000)
    want = head_analysis.relation_weights(head_analysis.all_weights(model, texts), texts, "pronoun")
    assert torch.equal(snapshot.pronoun, want)
    assert want[snapshot.best] == want.max()
    assert snapshot.accuracy == head_analysis.accuracy(model, texts, "pronoun")


# Pictures


def test_what_is_read_is_drawn_as_long_as_its_share():
    readings = [{"it": 0.07, "they": 0.5}, {"it": 0.96, "they": 0.0}, {"it": 1.0, "they": 0.25}]
    (ax,) = block_readings(readings).axes
    bars = [line.get_xdata() for line in ax.lines if 8 < line.get_linewidth() < 9]
    lengths = [(end - start) / 50 for start, end in bars]
    assert lengths == pytest.approx([0.07, 0.5, 0.96, 0.0, 1.0, 0.25])
    assert {"0.07", "0.96", "1.00"} <= {text.get_text() for text in ax.texts}


@pytest.mark.parametrize(
    ("dims", "title"), [((-1,), "C"), ((1,), "S"), ((0,), "B"), ((1, 2), "S, C")]
)
def test_lit_are_the_numbers_that_feel_the_same_mean(dims, title):
    """Autograd is the authority: the mean that one number is measured by depends on these."""
    x = torch.ones(2, 5, 6, requires_grad=True)
    (gradient,) = torch.autograd.grad(x.mean(dims, keepdim=True).expand_as(x)[0, 1, 2], x)
    figure = norm_groups({"way": dims}, (2, 5, 6))
    (ax,) = figure.axes
    lit = torch.tensor(
        [colors.to_hex(patch.get_facecolor()) != plots.QUIET for patch in ax.patches]
    ).view(2, 5, 6)
    assert torch.equal(lit, gradient > 0)
    assert ax.get_title("left") == f"way\nover {title}"
    assert colors.to_hex(ax.patches[8].get_facecolor()) == plots.INK  # (0, 1, 2)
