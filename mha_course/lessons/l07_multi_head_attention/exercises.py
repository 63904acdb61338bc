"""Lesson 7, Multi-head attention: the functions of lessons 2 to 6 put together."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from mha_course.attention import (
    attention,
    merge_heads,
    multi_head_attention,
    split_fused_qkv,
    split_heads,
)
from mha_course.exercises.attention_steps import ALL_SIX, MASKED, Steps, pass_through, read_fused
from mha_course.exercises.inputs import C, Draw, H, S, draw, opposed, self_attention, square, tokens
from mha_course.exercises.inputs import mask as some_mask
from mha_course.exercises.operations import Operation, Rule
from mha_course.exercises.spec import Exercise, Lesson, mistake
from mha_course.mistakes import ROWS


class MultiHeadAttention(nn.Module):
    """All six steps as a module: four Linears with bias."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map x (B, S, C) to out (B, S, C)."""
        q = split_heads(self.q_proj(x), self.num_heads)  # (B, H, S, D)
        k = split_heads(self.k_proj(x), self.num_heads)  # (B, H, S, D)
        v = split_heads(self.v_proj(x), self.num_heads)  # (B, H, S, D)
        context, _ = attention(q, k, v, mask)  # (B, H, S, D)
        return self.out_proj(merge_heads(context))


def fused_mha(
    x: Tensor, w_qkv: Tensor, w_o: Tensor, num_heads: int, is_causal: bool = False
) -> Tensor:
    """Do all six steps without bias, four of them in one call: (B, S, C) -> (B, S, C)."""
    q, k, v = split_fused_qkv(x @ w_qkv.T, num_heads)  # (B, H, S, D) each
    context = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)  # (B, H, S, D)
    return merge_heads(context) @ w_o.T  # (B, S, C)


def parameter_count(d_model: int, num_heads: int, bias: bool) -> int:
    """Count the module's parameters: four Linears, whatever the number of heads."""
    return 4 * (d_model * d_model + (d_model if bias else 0))


def fold_value_bias(w_o: Tensor, b_v: Tensor, b_o: Tensor) -> Tensor:
    """Return the bias (C,) that replaces b_v and b_o: weights sum to 1, so b_v stays b_v."""
    return w_o @ b_v + b_o  # (C,)


PARAMETERS = [
    f"{proj}.{kind}"
    for proj in ("q_proj", "k_proj", "v_proj", "out_proj")
    for kind in ("weight", "bias")
]


def _unseen(module: nn.Module) -> str:
    """Say what a module without parameters holds: it does not look into a list."""
    lists = [x for x in vars(module).values() if isinstance(x, list | tuple)]
    if any(isinstance(x, nn.Module) for each in lists for x in each):
        return "layers in a plain list, where their parameters are not found"
    return "no parameters"


def use_module(
    cls: Callable[..., Any],
    x: Tensor,
    mask: Tensor | None,
    num_heads: int,
    *parameters: Tensor,
) -> Any:
    """Build a learner's module with these weights and biases, and run it.

    Gradients go to the weights and biases, except those the module freezes.
    """
    if getattr(cls, "__init__", None) is nn.Module.__init__:
        raise ValueError("there is no __init__: write it with two underscores on both sides")
    module = cls(x.size(-1), num_heads).to(x.dtype)
    has = dict(module.named_parameters(remove_duplicate=False))
    state = {}
    for name, values in zip(PARAMETERS, parameters, strict=True):
        if name not in has:
            raise ValueError(
                f"there is no {name}: the module has {', '.join(has) or _unseen(module)}, and "
                "needs q_proj, k_proj, v_proj and out_proj, nn.Linear with bias"
            )
        if has[name].shape != values.shape:
            raise ValueError(
                f"{name} is {tuple(has[name].shape)}, and should be {tuple(values.shape)}"
            )
        state[name] = values if has[name].requires_grad else values.detach()
    try:
        inspect.signature(module.forward).bind(x)
        inspect.signature(module.forward).bind(x, mask)
    except TypeError:
        raise ValueError("write forward(self, x, mask=None), with self, x and mask") from None
    module.eval()
    return functional_call(module, state, (x,) if mask is None else (x, mask))


def _computes_with_its_own(
    cls: Callable[..., Any],
    x: Tensor,
    mask: Tensor | None,
    num_heads: int,
    *parameters: Tensor,
) -> tuple[str, str] | None:
    """Find parameters besides the four Linears whose random values change the result."""
    module = cls(x.size(-1), num_heads)
    if {name for name, _ in module.named_parameters()} <= {*PARAMETERS}:
        return None

    def use(build: Callable[..., Any]) -> Any:
        return use_module(build, x, mask, num_heads, *parameters)

    out = use(lambda *_: module)
    if not torch.equal(out, use(lambda *_: module)) or torch.equal(out, use(cls)):
        return None
    return "own-parameters", ROWS["own-parameters"].text


def parameters() -> tuple[Tensor, ...]:
    """Return the weights and biases of the four Linears, in the order of PARAMETERS."""
    return tuple(p for n in range(4) for p in (*square(20 + n), draw(C, seed=30 + n)))


WITH_MASK = "It was called with a mask (B, 1, S, S), in which one row sees nothing."
WITH_SQUARE_MASK = "It was called with a mask (S, S)."
FORMS = ("SS", "11SS", "B1SS")  # of the mask


def _drawn_function(d: Draw) -> tuple[Any, ...]:
    x, mask = self_attention(d, FORMS)
    w_q, w_k, w_v, w_o = d.matrices("CC", "CC", "CC", "CC")
    x, w_k = opposed(d, x, w_q, w_k)
    return x, w_q, w_k, w_v, w_o, d.H, mask


def _drawn_module(d: Draw) -> tuple[Any, ...]:
    x, *weights, num_heads, mask = _drawn_function(d)
    return x, mask, num_heads, *(p for weight in weights for p in (weight, d("C")))


def _attend(q: Tensor, k: Tensor, v: Tensor, is_causal: bool, **options: Any) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, **options)


def _masked(mask: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return a kernel that gets a mask (S, S) when it should be causal."""
    return lambda q, k, v, causal: _attend(
        q, k, v, False, attn_mask=mask(q.new_ones(q.size(2), k.size(2))) if causal else None
    )


def _build_fused(steps: Steps) -> Callable[..., Tensor]:
    s = Steps(**{"kernel": _attend} | vars(steps))

    def answer(
        x: Tensor, w_qkv: Tensor, w_o: Tensor, num_heads: int, is_causal: bool = False
    ) -> Tensor:
        q, k, v = read_fused(s.linear(x, w_qkv), num_heads, s)
        return s.output(s.merge(s.kernel(q, k, v, is_causal)), w_o, None, num_heads)

    return answer


def _fused_inputs() -> tuple[Tensor, Tensor, Tensor, int]:
    return tokens(), torch.cat(square(2, 3, 4)), square(5)[0], H


def _is_by_hand(operations: Sequence[Operation], *_: Any) -> bool:
    return not any("scaled_dot_product" in operation.name for operation in operations)


def _pairs_all_tokens(operations: Sequence[Operation], x: Tensor, *_: Any) -> bool:
    return any(operation.output[-2:] == (x.size(1), x.size(1)) for operation in operations)


@lru_cache(maxsize=2)
def _four_linears(d_model: int) -> list[nn.Linear]:
    """Return Linears that all known mistakes share, since filling new ones is slower than using
    them.
    """
    return [nn.Linear(d_model, d_model) for _ in range(4)]


def _build_module(s: Steps) -> type[nn.Module]:
    class Answer(MultiHeadAttention):
        def __init__(self, d_model: int, num_heads: int) -> None:
            nn.Module.__init__(self)
            self.num_heads = num_heads
            self.q_proj, self.k_proj, self.v_proj, self.out_proj = _four_linears(d_model)

        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            linears = (self.q_proj, self.k_proj, self.v_proj, self.out_proj)
            biases = [linear.bias for linear in linears]
            w_q, w_k, w_v, w_o = [linear.weight for linear in linears]
            return pass_through(s, x, x, w_q, w_k, w_v, w_o, self.num_heads, mask, biases)[0]

    return Answer


EXERCISES = [
    Exercise(
        multi_head_attention,
        "Which of your functions from lessons 2 to 6 does each step need, and in which order?",
        "Project, split, compare and scale, softmax, mix, merge, project. Call your own "
        "functions. The mask decides which softmax to call. See “See it: the whole pass in one "
        "picture”.",
        "q, k, v are (B, H, S, D), scores and weights (B, H, S, S), the context (B, H, S, D), the "
        "merged heads and the output (B, S, C).",
        line="scores = scaled_scores(q, k)\n"
        "weights = softmax(scores) if mask is None else masked_softmax(scores, mask)\n"
        "return merge_heads(weighted_sum(weights, v)) @ w_o.T, weights",
        special_cases=[
            ("", lambda: (tokens(), *square(2, 3, 4, 5), H)),
            (WITH_MASK, lambda: (tokens(), *square(2, 3, 4, 5), H, some_mask(S))),
            (WITH_SQUARE_MASK, lambda: (tokens(), *square(2, 3, 4, 5), H, some_mask(S)[0, 0])),
        ],
        drawn=_drawn_function,
        axes={"out": "B S C", "weights": "B H S S"},
        done="Your function does all six steps. Next: press Recompute in the picture "
        "above, and watch your heads.",
        steps=(*ALL_SIX, *MASKED),
        build=lambda s: lambda x, *rest: pass_through(s, x, x, *rest),
        tokens_and_queries=((0,), (1,)),
    ),
    Exercise(
        MultiHeadAttention,
        "What do you create once, when the module is built, and what in every call?",
        "Four `nn.Linear` and the number of heads belong in `__init__`, the steps of "
        "`multi_head_attention` in `forward`.",
        "Each Linear maps (B, S, C) to (B, S, C). Three results are split to (B, H, S, D). "
        "out_proj takes the merged heads (B, S, C).",
        line="# in __init__, and likewise k_proj, v_proj, out_proj\n"
        "self.q_proj = nn.Linear(d_model, d_model)\n"
        "# in forward, and likewise k and v\n"
        "q = split_heads(self.q_proj(x), self.num_heads)\n"
        "# and at its end\n"
        "return self.out_proj(merge_heads(context))",
        special_cases=[
            ("", lambda: (tokens(), None, H, *parameters())),
            (WITH_MASK, lambda: (tokens(), some_mask(S), H, *parameters())),
            (WITH_SQUARE_MASK, lambda: (tokens(), some_mask(S)[0, 0], H, *parameters())),
        ],
        drawn=_drawn_module,
        axes="B S C",
        done="Your module can load the parameters of any other with these four names. Next: load "
        "those of the running example into it.",
        steps=(*ALL_SIX, *MASKED),
        build=_build_module,
        run=use_module,
        diagnose=_computes_with_its_own,
        tokens_and_queries=((0,), (3, 4)),
    ),
    Exercise(
        fused_mha,
        "Which of the six steps are left to you when one call does scores, scale, softmax and "
        "weighted sum?",
        "Project with the fused weight, split it as in lesson 2, call "
        "`F.scaled_dot_product_attention`, merge, project. See “One call for the middle”.",
        "x @ w_qkv.T is (B, S, 3C), q, k, v and the context are (B, H, S, D), and the merged "
        "heads (B, S, C). The call scales the scores itself. Pass is_causal by its name.",
        special_cases=[
            ("", _fused_inputs),
            ("It was called with is_causal=True.", lambda: (*_fused_inputs(), True)),
        ],
        drawn=lambda d: (d("BSC"), *d.matrices("XC", "CC"), d.H, d.number % 2 == 1),
        axes="B S C",
        done="You can write attention as models ship it. Next: make the text 8 times as long, and "
        "compare its time with that of multi_head_attention.",
        steps=(
            "linear",
            "unpack",
            "order",
            "split",
            "split_each",
            "split_fused",
            "kernel",
            "merge",
            "output",
        ),
        build=_build_fused,
        rules=(
            Rule(ROWS["/all-pairs-made"], _pairs_all_tokens),
            Rule(ROWS["/kernel-by-hand"], _is_by_hand),
        ),
    ),
    Exercise(
        parameter_count,
        "Does each head have matrices of its own, or rows of one that all heads share?",
        "Count the weights of the four Linears, and their biases if they have any. See “Deeper: "
        "counting the parameters”.",
        "There are four times C · C weights, and with bias four times C more. One argument makes "
        "no difference. The result is an int.",
        special_cases=[
            ("", lambda: (24, 6, True)),
            ("It was called with bias=False.", lambda: (20, 5, False)),
            ("", lambda: (22, 11, True)),
        ],
        drawn=lambda d: (d.C, d.H, d.number % 2 == 1),
        done="You can say what attention costs in parameters before you build it. Next: how many "
        "does one layer of GPT-2 have, at width 768?",
    ),
    Exercise(
        fold_value_bias,
        "The same b_v is added to every token's value. What is left of it in a mixture with "
        "shares that sum to 1?",
        "The mixing leaves it unchanged. Then it goes through the output projection like "
        "everything else. See “Deeper: a bias that is not needed”.",
        "w_o (C, C) times b_v (C) gives (C), and b_o (C) is added.",
        drawn=lambda d: (d("CC"), d("C"), d("C")),
        axes="C",
        done="One bias now does the work of two. Next: why can no such bias replace b_q?",
    ),
]

MISTAKES = [
    mistake("/no-super-init", crashes="before Module.__init__", only=("MultiHeadAttention",)),
    mistake(
        "not-stored",
        crashes=r"^(NameError: name|AttributeError: .* has no attribute) "
        r"'((num|n)_?heads?|heads|h|d_model|(head_dim|d_head|d_k)|(q|k|v|out)_proj)'|"
        # A Linear with another name is there, but misnamed.
        r"there is no \w+\.weight: the module has (no parameters, |((q|k|v|out)_proj\.\w+, )+)and ",
        written=r"^(?!self\.\w+ ?= )",  # in __init__ a name is misspelt, not forgotten
        only=("MultiHeadAttention",),
    ),
    mistake("own-parameters", stage="repeat", only=("MultiHeadAttention",)),
    mistake(
        "scale-twice", kernel=lambda q, k, v, causal: _attend(q / q.size(-1) ** 0.5, k, v, causal)
    ),
    mistake(
        "scale-missing/kernel", kernel=lambda q, k, v, causal: _attend(q, k, v, causal, scale=1.0)
    ),
    mistake(
        "scale-inverted/kernel",
        kernel=lambda q, k, v, causal: _attend(q, k, v, causal, scale=q.size(-1) ** 0.5),
    ),
    mistake("causal-ignored", kernel=lambda q, k, v, causal: _attend(q, k, v, False)),
    mistake(
        "/causal-always",
        kernel=[
            lambda q, k, v, causal: _attend(q, k, v, True),
            lambda q, k, v, causal: _attend(q, k, v, not causal),
        ],
    ),
    mistake(
        "mask-inverted/kernel",
        kernel=[
            _masked(lambda ones: ones.triu(1).bool()),
            _masked(lambda ones: ones.triu().bool()),
        ],
    ),
    mistake("mask-multiplied/kernel", kernel=[_masked(torch.tril), _masked(lambda x: x.triu(1))]),
    mistake("/is-causal-as-mask", crashes="argument 'attn_mask'", only=("fused_mha",)),
    mistake(
        "/key-transposed-for-kernel", kernel=lambda q, k, v, causal: _attend(q, k.mT, v, causal)
    ),
    mistake("/one-result-unpacked", crashes=r"\(4, 7, 6\)", only=("fused_mha",)),
    mistake(
        "three-linears",
        parameter_count=[lambda c, h, bias: 3 * (c * c + c * bias), lambda c, h, bias: 3 * c * c],
    ),
    mistake(
        "times-heads",
        parameter_count=[
            lambda c, h, bias: 4 * h * (c * c + c * bias),
            lambda c, h, bias: 3 * h * (c * c + c * bias) + c * c + c * bias,
            lambda c, h, bias: 3 * h * (c * c + c * bias),
            lambda c, h, bias: h * (c * c + c * bias),
            lambda c, h, bias: 4 * h * c * c + 4 * c * bias,
            lambda c, h, bias: 4 * h * c * c,
        ],
    ),
    mistake(
        "bias-dropped/count",
        parameter_count=[
            lambda c, h, bias: 4 * c * c,
            lambda c, h, bias: 4 * c * c + 3 * c * bias,
            lambda c, h, bias: 4 * c * c + bias,
            lambda c, h, bias: 4 * c * c + 4 * bias,
        ],
    ),
    mistake(
        "bias-dropped/one-linear",
        parameter_count=lambda c, h, bias: 4 * c * c + c * bias,
    ),
    mistake("/biases-always-counted", parameter_count=lambda c, h, bias: 4 * (c * c + c)),
    mistake(
        "/linears-of-one-head",
        parameter_count=[
            lambda c, h, bias: 4 * (c * (c // h) + c // h * bias),
            lambda c, h, bias: 4 * ((c // h) ** 2 + c // h * bias),
            lambda c, h, bias: 4 * h * ((c // h) ** 2 + c // h * bias),
            lambda c, h, bias: 4 * c * (c // h),
        ],
    ),
    mistake("bias-not-projected", fold_value_bias=lambda w_o, b_v, b_o: b_v + b_o),
    mistake(
        "output-bias-projected",
        fold_value_bias=[
            lambda w_o, b_v, b_o: w_o @ (b_v + b_o),
            lambda w_o, b_v, b_o: (b_v + b_o) @ w_o,
        ],
    ),
    mistake("/biases-exchanged", fold_value_bias=lambda w_o, b_v, b_o: b_v + w_o @ b_o),
    mistake("weight-not-transposed/fold", fold_value_bias=lambda w_o, b_v, b_o: b_v @ w_o + b_o),
    mistake(
        "bias-dropped/fold",
        fold_value_bias=[lambda w_o, b_v, b_o: w_o @ b_v, lambda w_o, b_v, b_o: b_o],
    ),
]

LESSON = Lesson(7, "Multi-head attention", EXERCISES)
