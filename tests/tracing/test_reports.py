"""What a trace shows as text and HTML: where code is, what is folded, what is guessed."""

import pytest
import torch
from torch import nn

from mha_course.attention import MultiHeadAttention
from mha_course.errors import ShapeError
from mha_course.tracing import trace
from mha_course.widgets import ShapeTracer

B, S, C, H = 2, 5, 24, 4
D = C // H


class Layers(nn.Module):
    """Attention, added to the stream a given number of times."""

    def __init__(self, number, *, other=None):
        super().__init__()
        self.num_heads = H
        self.blocks = nn.ModuleList(MultiHeadAttention(C, H) for _ in range(number))
        if other is not None:
            self.blocks[other] = MultiHeadAttention(C, H, bias=False, dropout=0.5)
        self.norm = nn.LayerNorm(C)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)[0]
        return self.norm(x) * 2


def swap(x):
    """Unfold heads and sentences in the wrong order, and merge the result."""
    folded = x.flatten(0, 1)
    swapped = folded.view(H, B, S, D)
    return swapped.permute(0, 2, 1, 3).reshape(B, S, C)


def lines_of(found):
    return str(found).splitlines()


def test_a_statement_stands_once_whole_and_with_its_place_above_its_steps():
    def split(x):
        first = x.unflatten(
            2,
            (H, D),  # in the middle
        )
        return first.transpose(1, 2)  # (B, H, S, D)

    lines = lines_of(trace(lambda x: split(x) + split(x), torch.zeros(B, S, C), axes="B S C"))
    first = split.__code__.co_firstlineno
    name = "test_a_statement_stands_once_whole_and_with_its_place_above_its_steps.split"
    text = " ".join(" ".join(lines).split())
    file = __file__.rpartition("/")[2]
    assert f"{file}:{first + 1} in {name}: first = x.unflatten(2, (H, D))" in text
    assert "return first.transpose(1, 2)" in text
    assert "(B, H, S, D)" not in text, "comments are no code"
    assert text.count("x.unflatten(2, (H, D))") == 1
    assert f"{first + 1} in {name}, as in step 1" in text
    assert max(map(len, lines)) <= 88


def test_code_without_a_file_is_named_by_its_function():
    space = {}
    exec(compile("def double(x):\n    return x * 2\n", "<a cell>", "exec"), space)
    found = trace(space["double"], torch.zeros(B, S, C), axes="B S C")
    assert (lines_of(found)[1], found.steps[0].lineno) == ("code that cannot be shown", 2)


@pytest.mark.parametrize("number", [2, 5])
def test_layers_that_repeat_the_one_before_take_one_line(number):
    module = Layers(number)
    found = trace(module, torch.zeros(B, S, C), axes="B S C")
    text = str(found)
    several = f"blocks.1 to blocks.{number - 1}: the same 19 steps each, not shown again"
    assert (several if number > 2 else "blocks.1: the same 19 steps, not shown again") in text
    rows = [line.split()[0] for line in text.splitlines() if line.startswith("  ")]
    shown = [int(row) - 1 for row in rows if row.isdigit()]
    assert shown == [*range(19), 19 * number, 19 * number + 1]
    assert len(found.steps) == 19 * number + 2
    assert found._repr_html_().count("not shown again") == 1
    assert {step.module for step in found.steps} <= dict(module.named_modules()).keys()
    linear = [step for step in found.steps if step.op == "linear"]
    assert [step.module for step in linear[4:8]] == [
        f"blocks.1.{name}_proj" for name in ("q", "k", "v", "out")
    ]


def test_a_layer_that_differs_is_shown():
    text = str(trace(Layers(5, other=2), torch.zeros(B, S, C), axes="B S C"))
    folded = [line for line in text.splitlines() if "not shown again" in line]
    assert [line.partition(":")[0] for line in folded] == ["blocks.1", "blocks.4"]


def test_flops_are_in_the_rows_and_summed():
    found = trace(MultiHeadAttention(C, H), torch.zeros(B, S, C), axes="B S C")
    by_hand = 4 * 2 * B * S * C * C + 2 * 2 * B * H * S * S * D
    assert sum(step.flops for step in found.steps) == by_hand
    assert f"{by_hand:,} FLOPs" in found.summary()
    for shown in (str(found), found._repr_html_()):
        assert shown.count(f"{2 * B * S * C * C:,}") == 4
    moved = trace(lambda x: x.mT, torch.zeros(B, S, C), axes="B S C")
    assert all("FLOP" not in shown for shown in (moved.summary(), moved._repr_html_()))


def test_warnings_are_steps_and_what_follows_from_one_says_so():
    found = trace(swap, torch.zeros(B, H, S, D), axes="B H S D")
    first, second = found.warnings
    assert (first.name, second.op) == ("swapped", "reshape")
    assert first.line == "swapped = folded.view(H, B, S, D)"
    for shown in (str(found), found._repr_html_()):
        text = " ".join(shown.split())
        assert text.count(f": this may only follow from step {first.index + 1}") == 1
        assert text.count("What you folded as (B, H), unfold as (B, H).") == 1
    assert ShapeTracer(found).position == first.index
    assert second.warning.startswith("reshape-across-axes: ")


def test_the_widget_opens_at_the_first_step_or_question():
    right = trace(MultiHeadAttention(C, H), torch.zeros(B, S, C), axes="B S C")
    assert ShapeTracer(right).position == 0
    asked = trace(nn.MultiheadAttention(C, H), *[torch.zeros(B, S, C)] * 3, axes="B S C")
    assert ShapeTracer(asked).position == asked.questions[0].index


def test_a_ledger_says_that_it_shows_the_last_of_several():
    found = trace(Layers(3), torch.zeros(B, S, C), axes="B S C")
    names = [
        row.split("  ")[0] for row in repr(found.ledger("x", "q", "weights", "out")).split("\n")
    ]
    assert names == ["x", "q (last of 3)", "weights (last of 3)", "out (last of 3)"]
    one = trace(MultiHeadAttention(C, H), torch.zeros(B, S, C), axes="B S C")
    assert (
        repr(one.ledger("projection", "scores")).split("\n")[0].startswith("projection (last of 3)")
    )
    assert repr(one.ledger("q", "scores")).split("\n")[1].startswith("scores  (B, H, T, S)")


def test_expect_holds_axes_in_a_test():
    found = trace(MultiHeadAttention(C, H), torch.zeros(B, S, C), axes="B S C")
    assert found.expect("scores", "B H T S").name == "scores"
    assert found.expect("merged", "B ? C").op == "flatten"
    place = r"attention\.py:\d+ in split_heads: return x\.unflatten"
    for wrong in ("B S H D", "B H S", "B H S D D"):
        with pytest.raises(ShapeError, match=place) as caught:
            found.expect("q", wrong)
        assert (caught.value.expected, caught.value.got) == (wrong, "B H S D")
    with pytest.raises(KeyError, match="no step is called 'nobody'"):
        found.expect("nobody", "B")


class Decoder(nn.Module):
    """Looks up ids, and attends to memory."""

    def __init__(self):
        super().__init__()
        self.lookup, self.mha = nn.Embedding(11, C), MultiHeadAttention(C, H)

    def forward(self, ids, memory=None):
        return self.mha(self.lookup(ids), memory)[0]


def read(found):
    return {argument.name: " ".join(argument.axes) for argument in found.arguments}


def test_axes_are_guessed_from_declared_sizes_and_a_note_says_so():
    x, memory = torch.zeros(B, S, C), torch.zeros(B, 7, C)
    mha = MultiHeadAttention(C, H)
    alone = trace(mha, x)
    assert read(alone)["query"] == "B S C"
    assert alone.notes == (
        "axes= was not given, so they were guessed from the sizes that modules declare: "
        "query is B S C",
    )
    assert [s.axes for s in alone.steps] == [s.axes for s in trace(mha, x, axes="B S C").steps]
    both = read(trace(mha, x, memory, memory))
    assert (both["query"], both["key"]) == ("B T C", "B S C")
    ids = trace(Decoder(), torch.zeros(B, S, dtype=torch.long), memory)
    assert (read(ids)["ids"], read(ids)["memory"]) == ("B T", "B S C")
    assert read(trace(nn.MultiheadAttention(C, H), *[torch.zeros(S, B, C)] * 3))["query"] == "S B C"
    assert read(trace(lambda x, layer: layer(x)[0], x, mha))["x"] == "B S C"
    picture = torch.zeros(B, 3, 8, 12)
    assert read(trace(nn.Conv2d(3, C, 4, 4), picture))["input"] == "B C Y X"


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((S, S), "T S"), ((B, S), "B S"), ((B, S, S), "B T S"), ((B, 1, 1, S), "B 1 1 S"),
     ((1, S), "1 ?"), ((S, B), "? ?")],
)  # fmt: skip
def test_a_mask_is_guessed_where_its_sizes_leave_one_reading(shape, axes):
    module = MultiHeadAttention(C, H)

    def masked(x, mask):
        return module(x)[0].sum() + mask.sum()

    found = trace(masked, torch.zeros(B, S, C), torch.ones(shape, dtype=torch.bool))
    assert read(found)["mask"] == axes
    other = trace(lambda x, y: masked(x, mask=y), torch.zeros(B, S, C), torch.ones(shape))
    assert set(read(other)["y"].split()) <= {"?", "1"}


@pytest.mark.parametrize(
    ("shape", "fn"),
    [((B, S, C + 1), lambda x: x * 2), ((B, S, C), lambda x: x * 2), ((B, H, S, D), torch.exp)],
)
def test_nothing_is_guessed_where_nothing_is_declared(shape, fn):
    found = trace(fn, torch.zeros(shape))
    assert set(found.steps[-1].axes) == {"?"}
    assert found.notes[0].startswith("axes= was not given, and no module declares sizes")


def test_a_guess_never_raises():
    module = MultiHeadAttention(C, H)

    def odd(x, y):
        return module(x)[0].sum() + y.sum()

    assert read(trace(odd, torch.zeros(B, S, C), torch.zeros(B + 1, S, C)))["x"] == "? ? ?"
    assert read(trace(odd, torch.zeros(B, S, C), torch.zeros(())))["x"] == "B S C"


def test_code_that_asks_for_the_type_of_a_size_is_noted():
    def strict(x):
        return x * 2 if type(x.shape[0]) is int else x * 3

    found = trace(strict, torch.ones(B, S, C), axes="B S C")
    assert any("strict may ask for it" in note for note in found.notes)
    assert not trace(lambda x: x * x.shape[0], torch.ones(B, S, C), axes="B S C").notes
