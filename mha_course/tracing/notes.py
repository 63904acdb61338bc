"""Notes about code that a trace cannot see into."""

COMPILED = (
    "compiled code was run as it was written: what the compiler fuses and reorders cannot be seen"
)
CUSTOM = (
    "an operator that is not torch's: what it does inside cannot be seen, and its FLOPs are not "
    "counted"
)
FAST_PATH = (
    "in evaluation without gradients torch can take a fused path through nn.MultiheadAttention and "
    "nn.TransformerEncoder, but not while they are traced: results may differ by rounding, and in "
    "rows that are padding"
)
WIDTH_UNKNOWN = (
    "C is not known, so heads cannot be followed: name it in a pattern, or give sizes=dict(C=…)"
)
HEADS_UNKNOWN = (
    "C was cut into parts, and the number of heads is not known: if the parts are heads, give "
    "sizes=dict(H=…)"
)
SIZES = (
    "in a trace, sizes of tensors are ints that know their axis: isinstance(n, int) holds, "
    "type(n) is int does not, and {} may ask for it"
)
SCRIPTED = "scripted code runs outside Python: what it ran is shown, but its lines cannot be seen"
WRAPPED = (
    "tensors inside vmap and other transforms are wrapped, so that their memory and these steps "
    "cannot be seen"
)
SHAPELESS = (
    "nested and sparse tensors have no shape and strides of their own: steps that make them are "
    "not shown"
)
IN_NUMPY = (
    "a tensor went to NumPy: what is done there cannot be seen, and what comes back is not known"
)
_IN_KERNEL = (
    "cannot be looked into: {} is one call into a kernel, which never makes the scores and weights "
    "as tensors"
)
_IN_MODULE = (
    "not looked into: nn.MultiheadAttention does all its steps inside one call, "
    "in torch's own code, so that q, k, v, scores and weights are not seen"
)
OF_OPS = {
    "scaled_dot_product_attention": _IN_KERNEL.format("scaled_dot_product_attention"),
    "flex_attention": _IN_KERNEL.format("flex_attention"),
    "multi_head_attention_forward": _IN_MODULE,
}
