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
from mha_course.lessons.l13_encoder_block.pictures import block_readings, block_wirings, norm_groups

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
    assert torch.cat((measured.at_x[0], measured.at_weights[0])).tolist() == pytest.approx(wanted)


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


def test_only_post_norm_has_norms_on_the_stream():
    (ax,) = block_wirings().axes
    streams = [line.get_xdata()[0] for line in ax.lines if line.get_linewidth() > 6]
    on_stream = {
        x: [text.get_text() for text in ax.texts if text.get_position()[0] == x] for x in streams
    }
    assert [sorted(words) for words in on_stream.values()] == [
        ["+", "+", "out", "x"],
        ["+", "+", "norm1", "norm2", "out", "x"],
    ]
    words = [text.get_text() for text in ax.texts]
    for part in ("attention", "feed-forward", "norm1", "norm2"):
        assert words.count(part) == 2


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
    (ax,) = norm_groups({"way": dims}, (2, 5, 6)).axes
    lit = torch.tensor(
        [colors.to_hex(patch.get_facecolor()) != plots.QUIET for patch in ax.patches]
    ).view(2, 5, 6)
    assert torch.equal(lit, gradient > 0)
    assert ax.get_title("left") == f"way\nover {title}"
    assert colors.to_hex(ax.patches[8].get_facecolor()) == plots.INK  # (0, 1, 2)


@pytest.mark.slow
def test_what_is_said_of_sums_and_norms_holds_in_every_draw():
    ways = (depth.bare, depth.norms_alone, depth.sums_alone, depth.pre_norm, depth.post_norm)
    bare, normed, summed, pre, post = (depth.measure(way, 12) for way in ways)
    assert min(stack.cosine[:, 3].min() for stack in (bare, normed)) > 0.999
    assert (pre.cosine[:, 12] < summed.cosine[:, 12]).all()
    assert (summed.cosine[:, 12] < post.cosine[:, 12]).all()
    assert bare.rms[:, 12].max() < 1e-4
    assert summed.rms[:, 12].min() > 100
    assert 2 < pre.rms[:, 12].min() <= pre.rms[:, 12].max() < 4
    assert (post.rms[:, 12] - 1).abs().max() < 0.01
    grown = [stack.at_x[:, 0] / stack.at_x[:, 12] for stack in (bare, normed, summed, pre, post)]
    assert grown[0].max() < 1e-4
    assert grown[2].min() > 1e5
    assert all(0.3 < times.min() <= times.max() < 6 for times in (grown[1], *grown[3:]))
    for way in ways[2:]:
        gpt = depth.measure(way, 12, start="GPT-2")
        assert (gpt.at_x[:, 0] / gpt.at_x[:, 12] - 1).abs().max() < 0.02
        assert gpt.cosine[:, 12].max() < 0.02


@pytest.mark.slow
def test_what_is_said_of_gradients_at_the_last_layer_holds_in_every_draw():
    for start, least, most in (("Xavier", 0.0, 0.5), ("torch", 0.5, 0.8), ("GPT-2", 0.9, 1.1)):
        short, long = (
            depth.measure(depth.pre_norm, n, last_norm=True, start=start).at_weights[:, -1]
            for n in (8, 32)
        )
        assert least < (long / short).min() <= (long / short).max() < most
    pre = depth.measure(depth.pre_norm, 12, last_norm=True)
    post = depth.measure(depth.post_norm, 12).at_weights
    assert (pre.at_weights[:, 0] > 2.5 * pre.at_weights[:, -1]).all()
    assert (pre.at_x[:, 1:] < pre.at_x[:, :-1]).all()
    assert (post.amax(1) < 2.1 * post.amin(1)).all()
    deep = depth.measure(depth.post_norm, 32).at_weights
    assert 2.5 < (deep.amax(1) / deep.amin(1)).mean() < 3.5
    for n in (1, 8, 32):
        last = depth.measure(depth.post_norm, n).at_weights[:, -1]
        assert 0.3 < last.min() <= last.max() < 0.55
