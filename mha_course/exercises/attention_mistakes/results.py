"""How mistakes in the returned results are made, and those known by how an answer crashes."""

from __future__ import annotations

import math

from mha_course.exercises.attention_mistakes.projection import identity, own_slice
from mha_course.exercises.spec import mistake

OUTPUT = [
    mistake("scores-returned", returned=lambda weights, scores: scores),
    mistake("weights-averaged", returned=lambda w, z: w.mean(1), but=("self_attention",)),
    mistake(
        "dropout-at-eval",
        stage="repeat",
        but=("project", "project_qkv", "generate", "next_token_probabilities"),
    ),
    mistake(
        "weights-transposed",
        weigh=lambda w, v: w.transpose(-2, -1) @ v,
        but=("attend", "decode_step"),
    ),
    mistake("value-times-weights", weigh=lambda w, v: v @ w),
    mistake("output-projection-missing", output=identity),
    mistake("output-projection-per-head", output=own_slice),
]

BY_STAGE = [  # known by the broken rule, without numbers
    mistake("no-gradient", stage="no gradient"),
    mistake(
        "dtype-changed",
        stage="narrow",
        but=("next_token_targets", "generate", "sinusoidal_encoding"),
        crashes="same dtype, but got(:| query)|same datatype|Float,? and Double|scalar type .* but "
        "found",
    ),
    mistake("not-an-int", stage="no int"),
    mistake("size-hard-coded", stage="sizes"),
    mistake("dtype-changed/wider", stage="wide"),
    mistake("results-swapped", stage="swapped"),
]

OTHERS = [
    mistake("/dot-of-vectors", crashes="1D tensors expected, but got"),
    mistake("/mm-of-matrices", crashes="self must be a matrix|must be a 3D tensor"),
    mistake("/caret", crashes=r"bitwise_xor|for \^"),
    mistake("/sqrt-of-a-tensor", crashes=r"sqrt\(\): argument 'input'"),
    mistake(
        "/math-of-one-number",
        crashes="only one element tensors can be converted",
        written=r"\bmath\.|\b(exp|log|sqrt)\(",
    ),
    mistake(
        "/softmax-already",
        {"scale": lambda z, q, k, h: (z / math.sqrt(q.size(-1))).softmax(-1)},
        scores=lambda q, k: (q @ k.mT).softmax(-1),
        only=("scaled_scores",),
    ),
    mistake(
        "head-off-by-one/beyond",
        crashes=r"(tuple|list) index out of range|index 4 is out of bounds .* with size 4\b",
        written=r"\[[^]]*\b[a-z]\w*\]",  # a variable as the last index, as head is in a loop
        only=("heads_in_a_loop", "head_contributions"),
    ),
    mistake("/max-gives-two", crashes=r"return_types\.max"),
    mistake("/max-of-python", crashes="Boolean value of Tensor", written=r"\b(max|min)\("),
    mistake(
        "fused-three-innermost/project_qkv", unpack=lambda t: t.unflatten(2, (-1, 3)).unbind(-1)
    ),
    mistake(
        "/three-by-view",
        unpack=[
            lambda t: t.reshape(3, t.size(0), t.size(1), -1).unbind(0),
            lambda t: t.reshape(t.size(0), 3, t.size(1), -1).unbind(1),
        ],
    ),
    mistake("/heads-not-merged", merge=identity, but=("merge_heads",)),
    mistake(
        "view-on-non-contiguous",
        crashes="view size is not compatible",
        only=("patchify", "to_half_split"),
    ),
]
