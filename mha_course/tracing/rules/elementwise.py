"""Names in arithmetic with broadcasting, in softmax, and if no shape changes."""

from __future__ import annotations

from functools import reduce

from mha_course.tracing.axes import Axes, Axis, size_of, unknown
from mha_course.tracing.rules import numbers, warnings
from mha_course.tracing.rules.call import SCORES, OpCall, TensorInfo, rules

# Operations that may zero some elements of a tensor and keep the rest.
WITH_ZEROS = {"tril", "triu", "index_fill", "index_put", "masked_scatter", "scatter"}


def same(call: OpCall) -> list[Axes]:
    """Keep the axes of the first tensor."""
    value = call.info(call.first())
    if value.stage == "weights" and call.op.removesuffix("_") in WITH_ZEROS:
        numbers.check_masked_weights(call, value)
    return [call.axes(call.first()) for _ in call.outs]


def like(call: OpCall) -> list[Axes]:
    """Broadcast all inputs; the first tensor with an axis names it."""
    tensors = [tensor for tensor in call.tensors if tensor.dim()]
    rank = call.outs[0].dim()
    rows = [[()] * (rank - tensor.dim()) + call.axes(tensor) for tensor in tensors]
    axes: Axes = [unknown(size) for size in call.outs[0].shape]
    for position in range(rank):
        column = [row[position] for row in rows if len(row) == rank]
        axes[position] = reduce(call.broadcast, column) if column else axes[position]
    _infer_stage(call, list(map(call.info, tensors)), rows, axes)
    return [axes for _ in call.outs]


def _infer_stage(call: OpCall, values: list[TensorInfo], rows: list[Axes], axes: Axes) -> None:
    """Infer what the arithmetic means: scaling, masking, or a softmax by hand."""
    result = call.results[0]
    main = next((value for value in values if value.stage in (*SCORES, "weights")), None)
    if main is None:
        return
    divides = call.op in numbers.DIVISIONS
    over = next((value.reduced_axis for value in values if value.reduced_axis and divides), "")
    if main.stage == "weights":
        numbers.check_hidden_weights(call)
        numbers.check_masked_weights(call, main)
        if over:  # they sum to 1 along another axis from now on
            call.settle(main, "mask-after-softmax")
            result.softmax_axis = over
            result.softmax_step = call.index
    elif over:  # Numbers divided by their own sum are weights.
        divided = call.axes(call.first())
        axis = next((axis for axis in divided if call.names.label(axis) == over), ())
        _check_softmax_axis(call, over, axis, divided)
        result.stage = "weights"
    elif divides or call.op in ("mul", "multiply"):
        result.stage = "scaled_scores" if main.stage != "masked_scores" else main.stage
    elif len(values) > 1 and call.op in ("masked_fill", "where", "add", "sub"):
        result.stage = "masked_scores"
        numbers.check_added(call)
        masks = [row for value, row in zip(values, rows, strict=True) if not value.stage]
        columns = [size_of(row[-2]) for row in masks if len(row) > 1 and size_of(row[-1]) == 1]
        per_query = max(columns, default=1) > 1 and call.names.is_token(axes[-2])
        pixels = len(list(filter(call.names.is_token, main.axes))) > 2  # keys of two axes
        if per_query and call.outs[0].shape[-1] > 1 and not pixels:
            call.warn(warnings.warn("mask-on-queries"))


def softmax(call: OpCall) -> list[Axes]:
    """Normalise along an axis, which should be the keys'."""
    x = call.first()
    axes = call.axes(x)
    dim = call.arg(1, "dim", "axis")
    # Without dim, torch chooses one by the number of axes, and warns.
    if dim is None:
        dim = 0 if x.dim() in (1, 3) else 1
    if x.dim():
        _check_softmax_axis(call, call.names.label(axes[dim]), axes[dim], axes)
    return [axes]


def _check_softmax_axis(call: OpCall, label: str, axis: Axis, axes: Axes) -> None:
    names = call.names
    value = call.info(call.first())
    result = call.results[0]
    labels = list(map(names.label, axes))
    tokens = list(map(names.label, filter(names.is_token, axes)))
    result.softmax_step = call.index
    if value.stage == "weights" and value.softmax_axis == label:
        call.warn(warnings.warn("softmax-twice"))
    if value.stage in SCORES or len(tokens) > 1:
        result.stage = "weights"
        result.softmax_axis = label
    if value.stage in SCORES and axis == axes[-1]:
        numbers.check_scale(call, value)
        numbers.check_triangle(call, call.first())
    if value.summed_axis == "C" and names.sizes.get("H", 1) > 1:
        call.warn(warnings.warn("no-split", C=names.sizes["C"], H=names.sizes["H"]))
    if len(tokens) < 2 or label == "1":
        call.warn(warnings.of_pooling(names, axis, axes, value.stage in SCORES))
    elif label in tokens[:-1]:
        call.pending[call.index] = warnings.of_softmax("softmax-over-queries", labels, tokens[-1])
    elif label not in tokens:
        mistakes = {"H": "softmax-over-heads"} | dict.fromkeys(("B", "B*H"), "softmax-over-batch")
        if label in mistakes:
            call.warn(warnings.of_softmax(mistakes[label], labels, tokens[-1]))


SAME = """
    contiguous clone detach to type type_as float double half bfloat16 cpu cuda bool int long
    requires_grad_ alias tril triu dropout alpha_dropout layer_norm rms_norm group_norm batch_norm
    instance_norm sort argsort flip roll
    zeros_like ones_like empty_like full_like rand_like randn_like randint_like data real imag conj
    resolve_conj nan_to_num checkpoint bernoulli renorm softmin relu gelu silu elu leaky_relu prelu
    selu celu mish hardtanh relu6 hardswish hardsigmoid logsigmoid softplus tanhshrink softsign
    threshold dropout1d dropout2d feature_alpha_dropout scatter scatter_add scatter_reduce
    index_fill index_put masked_scatter select_scatter slice_scatter diagonal_scatter put dequantize
    fake_quantize_per_tensor_affine
"""
LIKE = """
    add sub rsub mul div true_divide divide multiply subtract floor_divide remainder fmod pow neg
    negative exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal abs absolute sign sgn
    sin cos tan asin acos atan atan2 sinh cosh tanh erf erfc sigmoid logit clamp clip clamp_min
    clamp_max floor ceil round trunc frac maximum minimum fmax fmin eq ne lt le gt ge equal isclose
    logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not
    invert isnan isinf isfinite where masked_fill lerp addcmul addcdiv complex polar xlogy
    bitwise_left_shift bitwise_right_shift hypot logaddexp heaviside float_power conj_physical angle
"""
ELEMENTWISE = rules(
    (SAME, same),
    (LIKE, like),
    ("softmax log_softmax _softmax gumbel_softmax", softmax),
)
