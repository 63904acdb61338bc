"""The one table of mistakes, whose words checker, tracer, bug hunt and grades share.

How a mistake is made is registered above, under its key: steps that are replaced in
``exercises.attention_mistakes`` and in a lesson's ``exercises.py``, methods in
``experiments.faulty_attention``, what a trace shows in ``tracing.rules.warnings``.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Row(NamedTuple):
    """One mistake: its key, what was done, why that matters and what to do, and where to read."""

    key: str
    title: str
    why: str
    section: str

    @property
    def id(self) -> str:
        """The public id, empty where the mistake has none."""
        return self.key.partition("/")[0]

    @property
    def text(self) -> str:
        """All that is said of it."""
        return f"{self.title} {self.why}".rstrip()

    @property
    def place(self) -> str:
        """The lesson and the heading to go back to, such as ``3, “How large is …?”``."""
        return f"{self.lesson}, “{self.section.split(': ', 1)[1]}”"

    @property
    def lesson(self) -> int:
        """The number of the lesson that explains it."""
        return int(self.section.split(",")[0])


# "# …" names a section, and below it stand its mistakes: "key: title", then, indented, why that
# matters and what to do. A title may take two lines: it ends with the first line that ends with a
# full stop. What follows a slash in a key separates mistakes of one id that look different in
# different exercises. "/…" has no public id; "…/traced" is what a trace says, with {names} for what
# it saw.
TABLE = """
# 0, Start here: One attention by hand
/dot-of-vectors: torch.dot takes two vectors.
    For the dot products of all pairs, use the matrix product @.
elementwise-product/similarity: x was multiplied number by number (*), and nothing was added up.
    A dot product also adds the products up. The matrix product @ does both.
elementwise-then-summed: Each token was multiplied with itself only.
    Each token should meet every token: x @ x.T has a number for every pair.
key-not-transposed/similarity: The second factor of the product is not transposed.
    @ pairs rows of the left with columns of the right, so tokens must be columns there: x @ x.T.
key-reshaped/similarity: A reshape gave x the shape of x.T but left the numbers in their order.
    That mixes numbers of different tokens. x.T turns rows into columns.
/columns-compared: The columns of x were compared, not its rows: x.T @ x.
    A token is a row of x, so compare rows: x @ x.T.
/similarity-divided: The dot products are right, but they were divided or turned into shares.
    Those are steps 2 and 3. This exercise asks for step 1 alone.
# 0, Start here: Do it
size-hard-coded: A size or a count is written into the code as a number, which fits one input only.
    Read it from a shape or from the arguments, as in B, S, C = x.shape.
# 0, Start here: Break it: how the word “similarity” misleads
cosine-not-dot/similarity: Each vector was divided by its length first. That is the cosine.
    A dot product also depends on how long the vectors are: multiply them as they are.
# 1, Projection: A Linear, taken apart
weight-not-transposed: The product is with W, but should be with its transpose.
    nn.Linear stores its weight as (out, in): write x @ W.T, or F.linear(x, W), which transposes W.
weight-not-transposed/output: W_O was not transposed.
    nn.Linear stores its weight as (out, in), so the product is merged @ W_O.T.
weight-not-transposed/fused: The three weights were not transposed: x @ W.
    nn.Linear stores its weight as (out, in), so the product is with the transpose: x @ W.T.
/weight-before-x: The two factors of the product are the wrong way round: weight @ x.
    Here tokens are rows, so x comes first and the weight is transposed: x @ weight.T.
/new-linear: Random numbers take part, as in a new nn.Linear, which draws its own weight and bias.
    Compute with the ones you are given: x, the weight and the bias.
/weight-reshaped: A reshape or view gave the weight the shape (in, out).
    That is not a transpose: it leaves the numbers in their order. weight.T turns rows into columns.
bias-dropped: A bias is missing.
    A Linear is x Wᵀ + b. The bias shifts every token by the same amount.
activation-on-projection: Negative numbers have become 0.
    Projections are linear. An activation would throw away half of each vector.
# 1, Projection: Deeper: does each head get a slice of the embedding?
weight-not-transposed/rows: Columns of W were used instead of rows: x @ W and not x @ W.T.
    nn.Linear stores its weight as (out, in). A head has D of the rows, and each row reads all of x.
/weight-cut-along-columns: The weight was cut along its columns.
    A head has D of the rows of w_q, and each row reads all of x: cut along axis 0.
/rows-from-head-number: The rows begin at the number of the head.
    Head 0 has the first D rows, head 1 the next D: the rows of a head start at head * D.
head-reads-own-slice: Each head reads only its own D numbers of x.
    A head reads all of x, through its own D rows of the weight. It is the result that is cut.
one-small-linear-for-all-heads: All heads share one D x D weight.
    Each head has its own D rows of the weight, and they read all of x.
# 1, Projection: Deeper: three Linears or one
wrong-unpack-order: The three were taken in another order than q, k, v.
    They are stored in the order q, k, v. Take them in that order.
pieces-not-three: 2 pieces came back instead of 3: axis 0 was cut, which holds 2 sentences.
    q, k and v lie side by side in the last axis: chunk(3, dim=-1).
/split-takes-a-size: split(3) cuts pieces of size 3, not 3 pieces.
    chunk(3, dim=-1) makes three equal pieces. split takes the size of a piece, C.
chunk-wrong-axis: The three parts are pieces of the sequence, not of the width.
    q, k and v lie side by side in the last axis: chunk(3, dim=-1).
fused-three-innermost/project_qkv: Every third channel was taken.
    The rows are stacked: all of q, then all of k, then all of v: chunk(3, dim=-1) cuts them so.
/three-by-view: The three were made by a view or reshape, which cuts across tokens.
    q, k and v lie side by side in each token: chunk(3, dim=-1).
/three-products: The result is right, but each of the three has its own product.
    Compute all of x times w_qkv in one product, then cut the result: chunk(3, dim=-1).
qkv-cut-along-tokens: q and k are pieces of one tensor that was cut along its tokens, so some tokens
    attend to other tokens and none to itself.
    Cut q, k and v along the width, dim=-1.
# 1, Projection: See it: look for what you need
key-value-swapped: Keys and values are swapped.
    A key is what a token is found by. A value is what it passes on. Each has its own weight.
value-through-key-projection: The values are made with W_K, as the keys are.
    Values need their own projection, W_V: what a token passes on is not what it is found by.
key-through-query-projection: The keys are made with W_Q, as the queries are.
    Keys need their own projection, W_K. Otherwise a scores b exactly as b scores a.
shared-projection: q, k and v all come from one projection.
    Three roles need three weights: W_Q, W_K and W_V.
value-not-projected: The values are x itself.
    Values are projected, like queries and keys: v = x W_Vᵀ.
/nothing-projected: q, k and v are x itself.
    Each is a projection of x with its own weight.
# 2, Head splitting: Four heads, one after the other
/one-head-repeated: Every head uses the rows of head 0.
    Head h has its own rows in each weight: the D rows from D * h on.
# 2, Head splitting: Deeper: a fused q, k, v
fused-heads-outermost: The last axis was read as (H, 3, D).
    It is laid out as (3, H, D): q, k, v; within each its heads; within each head its D numbers.
fused-three-innermost: The last axis was read as (H, D, 3).
    It is laid out as (3, H, D): q, k, v; within each its heads; within each head its D numbers.
fused-dim-before-heads: The last axis was read as (3, D, H).
    It is laid out as (3, H, D): q, k, v; within each its heads; within each head its D numbers.
width-not-divided-by-three: The last axis was taken to be C wide, but it is 3C wide.
    C is a third of it: D = qkv.size(-1) // (3 * num_heads).
# 2, Head splitting: The split, cell by cell
float-division: A size or an index is a float, because it was divided with /.
    Sizes and indices are whole numbers: divide with //.
view-without-transpose: x was viewed as (B, H, S, D) at once, so heads hold parts of several tokens.
    The heads of a token lie side by side: cut C into (H, D) first, then swap tokens and heads.
view-without-transpose/traced: This reshape cuts across {axes}, so each head holds parts of several
    tokens.
    Split the width first, view(B, S, H, D), then transpose(1, 2).
heads-innermost: The width was read as (D, H), so each head got every H-th number.
    The D numbers of a head lie side by side: view(B, S, H, D).
never-transposed: Heads and tokens were not swapped: (B, S, H, D).
    With the heads after the tokens, every token compares its own heads with each other.
never-transposed/traced: Heads stand where tokens should, so every token attends over its own heads
    and to no other token.
    Move the heads before the tokens, transpose(1, 2), before the product.
no-split: There is one head, as wide as C.
    Without a split, every token has one weight for each other token instead of one for each head.
no-split/traced: These scores add up all {C} numbers of the width: there is one head, not {H}.
    Split q, k and v into heads first.
/sizes-of-the-example: The sizes are those of the lesson's example, but check uses others.
    Read them from the shape, as in B, S, C = x.shape.
view-after-transpose: The axes were swapped before the width was cut.
    Cut the width of each token first, (B, S, H, D), then move the heads forward. After a transpose,
    view cannot cut, and reshape cuts between the wrong numbers.
only-one-of-qkv-wrongly-split: q, k and v were split differently: not all with the transpose.
    All three are split the same way: cut C into (H, D), then swap tokens and heads.
only-one-of-qkv-wrongly-split/traced: q, k and v are not all split the same way.
    All three are split the same way: cut C into (H, D), then swap tokens and heads.
/mm-of-matrices: torch.mm takes two matrices, with no axes in front of them.
    @ takes the last two axes as matrices and repeats the product over the axes in front.
reshape-across-axes: This reshape cuts across {axes}: the new axes hold parts of several old ones.
tokens-joined: This reshape joins several tokens into one: {axes} become one axis, whole tokens side
    by side.
# 2, Head splitting: Where it lives
fold-order-mixed: Heads and sentences are swapped.
    What was folded as (B, H) must be unfolded as (B, H).
# 2, Head splitting: Deeper: one head alone
/all-heads-computed: All heads were computed, and all but one thrown away.
    Multiply x by the rows of this head alone.
# 3, Scores and scaling: See it: all pairs at once
key-not-transposed: The second factor of the product is not transposed.
    A score is a dot product, so the product sums over the width: q @ k.transpose(-2, -1).
key-not-transposed/traced: This product sums over {left} of the first and {right} of the second
    factor, which only have the same size.
    Transpose the keys: k.transpose(-2, -1).
key-transposed-wrong-axes: The wrong two axes of k were swapped.
    Swap tokens and width, the last two axes: k.mT, or k.transpose(-2, -1). That is transpose(1, 2)
    only if there is no axis for the heads.
key-all-axes-reversed: k.T reverses all axes of k, not only the last two.
    Swap tokens and width only: k.transpose(-2, -1).
key-reshaped: A reshape or view gave the keys the shape of kᵀ.
    A reshape is not a transpose: it mixes tokens and width. Use k.transpose(-2, -1).
key-reshaped/traced: This reshape gives the keys the shape of kᵀ, but leaves the numbers in their
    order, so tokens and head width are mixed.
    Use k.transpose(-2, -1).
query-key-swapped: Queries and keys are swapped: the rows are keys.
    A row belongs to a query: q @ k.transpose(-2, -1).
elementwise-product: Two tensors were multiplied number by number (*) instead of as matrices (@).
    A score is one number for a query and a key, their dot product; a context is a sum over keys.
cosine-not-dot: Both vectors were scaled to length 1 first. That is their cosine.
    A dot product also depends on how long the vectors are: multiply them as they are.
/scaled-already: The scores are divided by sqrt(D) already.
    That is the next exercise. This one asks for the dot products alone.
contraction-of-different-axes: This product sums over {left} of the first and {right} of the second
    factor, which only have the same size.
# 3, Scores and scaling: Break it: which width?
scale-d-model: The scores are divided by √C, where C is the width of the model.
    A dot product of D numbers has spread √D, and D is the width of a head.
scale-by-heads: The scores were divided by sqrt(H), the number of heads.
    The spread grows with the width of a head, not with the number of heads.
/scale-of-the-example: The scores were divided by sqrt(12), for the 12 numbers of the example.
    Here a head has another width. Take it from the queries: q.shape[-1].
# 3, Scores and scaling: How large is a dot product?
scale-no-root: The scores are divided by D, not by its root.
    The spread of the scores grows with √D.
/scale-half-width: The scores were divided by D / 2: D ** 1 / 2 takes the power first.
    The root of D is D ** 0.5, or math.sqrt(D).
scale-missing: The scores are not scaled.
    Without / √D their spread grows with D until one key takes nearly all, by chance.
scale-inverted: The scores were multiplied by sqrt(D).
    Dividing keeps the spread at 1; multiplying makes it D.
scale-after-softmax: The weights were divided by sqrt(D), so rows sum to 1 / sqrt(D).
    Divide the scores instead, before the softmax.
scale-by-length: The scores are divided by √S, where S is the number of tokens.
    The spread of the scores depends on the width of a head, not on the length.
/scale-rounded: The root of D was rounded to a whole number.
    Divide by math.sqrt(D) as it is: // and int cut off its decimals.
/sqrt-of-a-tensor: torch.sqrt takes a tensor, but a size is a plain number.
    Write math.sqrt(size), or size ** 0.5.
# 3, Scores and scaling: Deeper: one matrix for each head
form-transposed: This is the transpose: W_Kᵀ W_Q stands where W_Qᵀ W_K should.
    The query's token stands on the left of the matrix, so W_Qᵀ comes first.
form-of-all-heads: All rows of both weights were used, which adds up the matrices of all heads.
    One head has D rows of each weight: w_q.chunk(num_heads)[head].
/form-summed-over-width: The product summed over C instead of over the D rows of the head.
    Multiply (D, C) transposed by (D, C): that is (C, D) times (D, C).
key-not-transposed/form: Neither of the two is transposed.
    The product must sum over the D rows of the head: (C, D) times (D, C).
elementwise-product/form: The two were multiplied number by number (*) instead of as matrices (@).
    The product must sum over the D rows of the head: (C, D) times (D, C).
weight-not-transposed/form: A head's columns were taken from both weights, instead of its rows.
    nn.Linear stores its weight as (out, in), so a head has D rows: w_q.chunk(num_heads)[head].
# 4, Softmax: Break it: the wrong axis
softmax-over-queries: Columns sum to 1 instead of rows: the softmax runs over the queries.
    Each query shares out one whole among the keys: softmax over dim=-1.
softmax-over-queries/traced: Columns sum to 1 instead of rows: softmax ran over the queries.
    Each query shares out one whole among the keys: softmax over dim={dim}.
softmax-over-heads: The softmax runs over the heads.
    Each head has its own rows, which sum to 1: softmax over dim=-1.
softmax-over-heads/traced: The softmax runs over the heads.
    Each head has its own rows, which sum to 1: softmax over dim={dim}.
softmax-over-batch: Softmax ran over the batch, so sentences depend on each other.
    Use the axis of the keys, dim=-1.
softmax-over-batch/traced: Softmax ran over the batch, so sentences depend on each other.
    Use the axis of the keys, dim={dim}.
softmax-over-everything: The whole table sums to 1, instead of each row.
    Each query shares out its own whole: softmax over one axis, dim=-1.
softmax-over-everything/traced: This softmax runs over {axes} at once: one distribution for all
    queries together.
    Use the axis of the keys, dim=-1.
# 4, Softmax: See it: from scores to weights
softmax-no-exp: Scores were divided by their sum, without the exponential.
    Scores can be negative. exp makes them positive first, so that they become shares.
softmax-sigmoid: Each score was turned into a share by itself: this is the sigmoid.
    Softmax makes the keys of a row compete, so that the row sums to 1.
softmax-log: These are logarithms of the weights.
    log_softmax is for losses. The weights are softmax itself.
softmax-twice: Softmax was taken twice.
    The second one flattens the weights, because they already lie between 0 and 1.
/softmax-missing: The softmax is missing: the scores were used as they are.
    exp makes them positive, and the division makes each row sum to 1.
# 4, Softmax: Hiding words
/causal-unasked: Later tokens are hidden, but this exercise does not ask for that.
    Here every query sees every key that no mask hides. The causal mask comes in lesson 8.
mask-inverted: The mask is read the wrong way round: what it should hide is seen.
    True means may attend, so hide where the mask is False: ~mask.
mask-multiplied: Hidden keys still get exp(0).
    A score of 0 is not a low score. Fill hidden scores with -inf.
mask-fill-tiny: Hidden scores were filled with a tiny number near 0.
    1e-9 is nearly 0, and exp(0) is 1. Fill with -inf.
mask-fill-positive-inf: Hidden scores were filled with +inf, which gives NaN.
    A hidden score must be as low as possible: -inf.
mask-added-as-number: The mask was added to the scores as 0 and 1.
    That multiplies weights by e and hides nothing. Add 0 and -inf, or use masked_fill.
/bool-minus: torch does not subtract True and False, so a mask cannot take a minus.
    The opposite of a mask is ~mask. Fill what it hides: scores.masked_fill(~mask, -torch.inf).
mask-after-softmax: The mask is applied after the softmax, so rows sum to less than 1.
    Hide the scores before the softmax, so that the visible keys share the whole.
mask-ignored: The mask has no effect.
    Hidden keys must get weight 0.
mask-first-batch-only: Every sentence is masked with the mask of the first.
    Each sentence has its own mask.
masked-row-nan: A row that sees nothing is NaN.
    Softmax of nothing but -inf is 0 / 0. The weights of such a row should all be 0.
masked-row-uniform: A row that sees nothing attends to everything equally.
    Its scores are equal, as with a finite fill, or its NaN was replaced. Its weights must be 0.
mask-none: mask was None, but the code used it as a mask.
    Hide keys only if there is a mask: if mask is not None.
truth-of-a-mask: `if` and `not` take a single truth value, and a mask holds many.
    Write `if mask is not None`, and `~mask` for the opposite of a mask.
nan-gradient: The result is right, but a gradient is NaN.
    A row that sees nothing was NaN on the way, and backward() meets that NaN. Fill hidden scores
    with masked_fill instead of adding -inf; or give such a row scores of 0, and weights of 0.
mask-times-minus-inf: Everything became NaN: 0 times inf has no value.
    Fill hidden scores with masked_fill, which leaves the others as they are.
mask-after-softmax-renormalised: If a hidden score is far above the others, these weights are 0.
    Either weights were hidden after the softmax and the rest rescaled, or the maximum was taken
    over hidden scores as well. Hide scores first: fill them with -inf.
mask-form-ignored: The code handles one form of the mask only, but it can have another.
    A mask (S, S) and a mask (B, 1, S, S) both broadcast to scores (B, H, S, S): use it as it is.
# 4, Softmax: A softmax that does not overflow
softmax-unstable: With scores of 10 000 the result is NaN.
    exp overflows. Subtract the largest score of the row first: softmax only sees differences.
softmax-no-keepdim: The sums, or the largest scores, do not line up with their rows.
    A sum over the last axis drops it. keepdim=True keeps it, so that division goes row by row.
/math-of-one-number: A function for single numbers was given a tensor.
    The functions of math take one number. On a tensor use torch.exp, torch.log or torch.sqrt.
/max-gives-two: max along an axis returns two things: the largest numbers, and where they are.
    Take .values, or use amax: scores.amax(-1, keepdim=True).
/largest-of-all-subtracted: The largest score of all was subtracted, not that of each row, so in low
    rows every exp is 0.
    0 / 0 is NaN. Take the largest of each row: scores.amax(-1, keepdim=True).
# 4, Softmax: Deeper: entropy, a number for undecided
entropy-log-of-zero: A weight of 0 gave NaN: its logarithm is -inf, and 0 · -inf has no value.
    By convention 0 · log 0 is 0. torch.special.xlogy(weights, weights) follows it.
entropy-sign: The minus sign is missing.
    Logarithms of shares are negative; the entropy is minus their sum.
entropy-base-two: The logarithm is to base 2: this is in bits.
    The exercise asks for nats, with the natural logarithm: torch.log.
entropy-mean: The mean over the keys was taken instead of the sum.
    Sum w log w over the row: the weights w already average the logarithms.
/entropy-wrong-axis: The sum is not over the rows.
    Each row has its own entropy: sum over the last axis, dim=-1.
/entropy-without-weights: The logarithms were added up without their weights.
    Multiply each by its weight first: w log w.
# 4, Softmax: Deeper: a large negative number instead of −∞
mask-fill-finite: Hidden scores were filled with a number that is not low enough.
    If all visible scores of a row are even lower, the hidden keys win. Fill with -inf.
mask-added-finite: A finite number was added to the hidden scores, which only lowers them.
    A hidden score that leads by more than this number still wins. Replace the scores:
    masked_fill(~mask, -torch.inf).
# 4, Softmax: Do it
/library-softmax: A softmax of PyTorch did the work.
    Write the three steps of softmax yourself.
# 1, Projection: A whole head
scores-returned: The scores were returned instead of the weights. The context is right.
    The weights are the softmax of the scores: return those.
dropout-at-eval: Two calls with the same input differ, as they do with dropout.
    Leave out dropout and everything else random: the same input must give the same result.
# 5, Weighted sum: See it: a context and what it is made of
weights-transposed: The weights were transposed.
    Row t of the weights belongs to query t: weights @ v.
weights-transposed/traced: The weights sum to 1 over {left}, but here they are summed over {right}.
    Do not transpose the weights.
value-times-weights: The two factors are the wrong way round: v @ weights.
    Each context is a weighted sum of values: weights @ v.
# 6, Concatenation: See it: the merge, cell by cell
merge-without-transpose: The heads were joined by a reshape at once, so tokens got parts of others.
    Swap heads and tokens first, so that the heads of one token lie side by side; then join.
merge-without-transpose/traced: This merge cuts across {axes}, so each token gets parts of other
    tokens.
    Put the tokens before the heads, transpose(1, 2), then merge.
merge-dim-before-heads: The heads are merged as (D, H), not (H, D).
    The order should be (H, D): all of head 0, then all of head 1.
/tokens-and-channels-swapped: Tokens and channels were swapped; the heads still stand before them.
    Swap heads and tokens first, transpose(1, 2), so that a token's heads lie side by side.
merge-batch-mixed: Different sentences were mixed.
    Go back to (B, S, H, D) before joining. The batch stays in front.
heads-averaged: The heads were added up or averaged.
    Lay them side by side. Once averaged, they cannot be told apart.
heads-on-sequence-axis: The heads were joined along the tokens.
    They belong side by side in the width: dim=-1.
# 6, Concatenation: Do it
view-on-non-contiguous: view cannot read these axes as they lie in memory.
    After a transpose, the numbers are out of order. Use reshape, or contiguous() and then view.
# 6, Concatenation: W_O: where the heads meet
output-projection-missing: The merged heads are returned without the output projection.
    Only W_O lets the heads meet.
output-projection-per-head: Each head was projected with its own block of W_O.
    Every number of the output may depend on all heads.
output-columns-as-rows: W_O was cut by rows.
    Cut it by columns: each head is read by D columns of W_O.
weight-not-transposed/columns: A head's D columns of W_O were not transposed.
    They are (C, D), as nn.Linear stores them, (out, in): multiply by their transpose, (D, C).
/all-columns: A head's D numbers met all C columns of W_O.
    Multiply each head by its own D columns only.
/columns-interleaved: The columns of W_O were cut as (D, H), so each head got every H-th one.
    The columns of a head lie side by side, as its numbers do in the merged context: cut as (H, D).
# 6, Concatenation: Deeper: one matrix for what a head carries
form-transposed/circuit: This is the transpose of the matrix.
    The token goes through W_V first, so W_V stands on the right: W_O times W_V.
form-of-all-heads/circuit: All of both weights were used, which adds up the matrices of all heads.
    One head has D rows of w_v and the D columns of w_o that read them.
/circuit-summed-over-width: The product summed over C.
    It must sum over the D numbers of the head: (C, D) times (D, C).
output-columns-as-rows/circuit: W_O was cut by rows.
    A head's D numbers are read by D columns of W_O.
weight-not-transposed/circuit: A head's columns of W_V were used instead of its rows.
    nn.Linear stores its weight as (out, in), so D rows of w_v make the numbers of a head.
# 6, Concatenation: Two heads that subtract
same-place-twice: Both heads look at the same token.
    One head must find a and the other b, through channels d and d + 1 in w_k.
looks-for-the-asker: A head looks for the query token itself.
    w_q must read the channel of the query token, d + 2; w_k that of the token to find, d or d + 1.
lead-too-small: The heads also look at other tokens.
    The lead in the scores is too small. Larger entries in w_q or w_k bring the weights to 1.
heads-exchanged: The difference has the wrong sign.
    This makes c_b - c_a: swap the signs.
sum-not-difference: The two contents are added.
    One of the two must be subtracted: put -1 in its columns of w_o.
# 7, Multi-head attention: Do it: one function, one module
/no-super-init: Its __init__ does not begin with super().__init__().
    A module has to be set up before anything can be stored in it.
not-stored: Something that forward needs was not stored in __init__.
    Write self. before its name, there and in forward: self.num_heads = num_heads.
weights-averaged: The weights were averaged over the heads, nn.MultiheadAttention's default.
    Return those of every head, (B, H, S, S): each head attends in its own way.
state-kept: The answer to one call depends on an earlier call: something was kept in between.
    In every call, compute all that depends on the input. Keep only parameters and sizes.
# 7, Multi-head attention: One call for the middle
scale-twice: The scores are scaled twice: before the call, and by the call.
    F.scaled_dot_product_attention divides by sqrt(D) itself: pass it q and k as they are.
scale-missing/kernel: The call was told not to scale the scores, by scale=1.
    Without scale= the call divides by sqrt(D), as it should here.
scale-inverted/kernel: The scale of the call was set to sqrt(D): it multiplies instead of dividing.
    Leave scale out: by default the call uses 1 / sqrt(D).
causal-ignored: is_causal has no effect: tokens see later tokens.
    Pass it on by its name: is_causal=is_causal.
/causal-always: Later tokens are hidden although is_causal is False.
    Pass on the argument that you were given: is_causal=is_causal.
/is-causal-as-mask: is_causal was passed in the place of the mask.
    The fourth argument of the call is attn_mask. Pass is_causal by its name: is_causal=is_causal.
/key-transposed-for-kernel: k was transposed before the call.
    The call takes q, k and v as they are, (B, H, S, D) each. It transposes k itself.
/heads-not-merged: The heads were not merged before the output projection.
    W_O reads (B, S, C), with the heads of a token side by side: call merge_heads(context) first.
/all-pairs-made: The result is right, but the code makes a tensor of S x S numbers.
    One call of F.scaled_dot_product_attention on (B, H, S, D), with is_causal, makes none.
/kernel-by-hand: The result is right, but the four steps in the middle are written by hand.
    Let F.scaled_dot_product_attention do them.
# 7, Multi-head attention: Deeper: counting the parameters
not-an-int: The number is right, but it is not an int.
    A count is a whole number: multiply ints with ints, and divide with //.
three-linears: Three Linears were counted.
    The output projection is the fourth.
times-heads: The count was multiplied by the number of heads.
    Heads divide the rows of one weight, so more heads give the same count.
bias-dropped/count: Biases are missing from the count.
    If bias is True, each of the four Linears has d_model biases.
/biases-always-counted: The biases were counted although bias is False.
    Add them only if bias is True.
/linears-of-one-head: Each Linear was counted as D wide.
    All heads together are as wide as d_model, so each of the four weights is (C, C).
# 7, Multi-head attention: Deeper: a bias that is not needed
bias-not-projected: b_v was added without W_O.
    It is added to the values, so W_O projects it like everything the heads bring: w_o @ b_v.
output-bias-projected: W_O was also applied to b_o.
    b_o is added after W_O. Only b_v goes through it: w_o @ b_v + b_o.
/biases-exchanged: The two biases are swapped.
    b_v is added before W_O, so it goes through it. b_o is added after it: w_o @ b_v + b_o.
weight-not-transposed/fold: This is b_v @ w_o: the weight was not transposed.
    nn.Linear stores its weight as (out, in). For one vector that is w_o @ b_v, or b_v @ w_o.T.
bias-dropped/fold: One of the two biases is missing.
    b_v goes through W_O, and b_o is added: w_o @ b_v + b_o.
# 7, Multi-head attention: Where it lives
attention-over-batch: This attends over an axis called B, so sentences attend to one another.
    nn.MultiheadAttention takes (S, B, C) unless it is made with batch_first=True.
# 7, Multi-head attention: Eight ways to write it
no-gradient: The numbers are right, but a gradient is missing, so not all could be learned.
    detach(), .data, no_grad() and NumPy cut off the gradient. Compute with the tensors themselves.
# 8, Masks: Masks: one vocabulary
causal-hides-self: A token does not see itself.
    The diagonal is allowed: a token sees itself and what came before.
causal-leaks-next: Each token sees the next one.
    A token may attend to itself and to earlier tokens, not to later ones.
/upper-triangle: Each token sees itself and what comes after it: this is the upper triangle.
    The past lies below the diagonal, where s < t: keep that with tril.
mask-inverted/made: True and False are swapped.
    True means may attend.
/padding-one-too-many: Each sentence sees one position too many.
    Positions count from 0: a sentence of 3 words has positions 0, 1 and 2. Compare with <.
masks-or-instead-of-and: Causal and padding mask are joined with or.
    Both must allow it: &, not |.
mask-ignored/combined: One of the masks has no effect.
    Both must allow a key.
causal-missing: There is no causal mask.
    Every token sees all later ones, so in training it reads what it should predict.
# 8, Masks: Left or right?
padding-other-side: This is the mask for padding on the left.
    Here the padding is on the right: position s holds a word if s < length.
# 8, Masks: When T is not S: which corner?
causal-top-left: The triangle stands at the top left.
    The new tokens are the last ones: align the triangle with the bottom right corner.
causal-top-left/traced: is_causal=True aligns the triangle at the top left, so the last query sees
    only {T} of {S} keys.
    Tokens that follow a cache are the last ones: pass a mask for them, or none for a single one.
# 8, Masks: Deeper: conventions in the wild
convention-misread: The numbers of "additive" were turned round like a mask of True and False.
    It holds 0 where a key may be seen and -inf where it is hidden: compare with 0.
# 8, Masks: Broadcasting: which mask goes to whom
padding-on-queries: The mask hides queries, not keys.
    No query may see the padding, so it belongs on the last axis: mask[:, None, None, :].
padding-broadcast-raw: The mask is (B, S), and it would be read as (T, S).
    Give it axes for heads and queries: mask[:, None, None, :].
padding-broadcast-raw/traced: An axis B meets an axis {other} of the same size.
    A padding mask (B, S) must become (B, 1, 1, S) first: mask[:, None, None, :].
mask-missing-head-axis: The mask lacks an axis for the heads.
    With (B, T, S) the batch would meet the heads.
mask-missing-head-axis/traced: An axis B meets the heads, which happen to have the same size.
    Give the mask a head axis: mask.unsqueeze(1).
mask-first-batch-only/made: All sentences are masked as the first is.
    Each sentence has its own length.
broadcast-of-different-axes: Broadcasting laid {left} on {right}, which only have the same size.
mask-on-queries: This mask is the same for all keys, so it hides whole queries.
    A padding mask (B, S) hides keys: mask[:, None, None, :].
# 8, Masks: A probe that finds nothing
leaks-transposed: Rows and columns are swapped.
    What follows from a change of token s is column s of the result: leaks[:, s].
values-not-changes: The result holds outputs or their differences, not where outputs change.
    Compare with !=, and ask with any.
one-token-only: Only one token was ever changed, so only its column says anything.
    Change each token.
# 8, Masks: Deeper: the number that hides
mask-fill-positive-inf/additive: Hidden keys got +inf.
    Hidden means as small as can be: -inf.
mask-added-as-number/additive: The mask became 0 and 1.
    Added to scores, 0 and 1 hide nothing. It should be 0 and -inf.
mask-fill-tiny/additive: Hidden keys got a tiny number.
    A number near 0 hides nothing. Use -inf.
mask-times-minus-inf/additive: What may be seen became NaN: 0 times inf is not a number.
    Fill with masked_fill.
masked-row-uniform/additive: Hidden keys got a large finite number.
    In a row with nothing to see, all keys are then alike. Use -inf.
dtype-ignored: The numbers are right, but their dtype is not the one that was asked for.
    Pass dtype on, as in torch.zeros(mask.shape, dtype=dtype).
# 9, Cross-attention: Cross-attention: two sequences
query-from-memory: The queries come from memory, like keys and values.
    They must come from x: the output has a row for each token of x.
memory-ignored: Keys and values come from x.
    They must be projections of memory. Only the queries come from x.
memory-and-input-joined: Keys and values come from x and memory together.
    They must come from memory alone: weights are (B, H, T, S), a column for each of its tokens.
key-value-different-sources: Keys and values come from different sequences.
    A key and its value belong to one token. Both come from memory.
# 9, Cross-attention: The mask belongs to the memory
mask-inverted/memory: What should be hidden is seen, and what should be seen is hidden.
    True means may attend, so hide where the mask is False: ~memory_mask.
# 10, Positions: Positions: sinusoidal encoding
sin-cos-swapped: Sine and cosine are swapped.
    Even indices hold the sine, odd ones the cosine.
frequency-per-index: Each index has a frequency of its own.
    A sine and the cosine beside it share one.
frequency-precedence: The exponent slipped.
    It is 2i / d for pair i, so that frequencies run from 1 down to nearly 1 / 10000.
waves-in-halves: All sines are in the first half, all cosines in the second.
    Here they alternate: sines at even channels, cosines at odd ones.
positions-from-one: The first position is 1.
    Positions are counted from 0: row 0 holds sines of 0 and cosines of 1.
# 10, Positions: Positions: rotary pairs
sin-cos-swapped/rope: Sine and cosine are swapped.
    An angle of 0 changes nothing: the cosine multiplies the number itself, the sine its partner.
positions-ignored: The tokens were counted from 0, and positions was not used.
    A token in a cache, or in a later piece of text, has another position: use positions.
base-ignored: The base is not the one that was given.
    It is an argument, and 10000 by default: models for long texts use a larger one.
frequency-precedence/rope: The exponent slipped.
    It is -2i / D for pair i, from 0 down to nearly -1, with a minus: pair 0 is the fastest.
rope-wrong-sign: The rotation goes the other way round.
    Pair (a, b) becomes (a cos - b sin, a sin + b cos).
rope-missing-minus: The minus is missing.
    A rotation is (a cos - b sin, a sin + b cos); without the minus lengths change.
rope-interleaved: This is the other layout, in which neighbours are pairs.
    It is just as valid, but here index i is paired with i + D/2.
rope-layout-mixed: Angles of one layout meet the rotation of the other.
    In the half-split layout the angles repeat as a block: cat((angles, angles), -1).
rope-in-degrees: The angles were converted, from degrees or to degrees.
    sin and cos take radians, and position times frequency is the angle in radians.
rope-values-not-angles: The position was added, and nothing was rotated.
    RoPE rotates each pair by an angle that grows with the position.
# 10, Positions: Break it: the wrong place for a rotation
rope-on-values: The values are rotated by their positions as well.
    Positions belong in the scores, where only differences count. Leave the values alone.
# 10, Positions: Only the offset matters
rope-on-queries-only: Only the queries are rotated, not the keys.
    Then a score depends on where the query is, and not on how far away the key is.
# 11, KV cache and fewer KV heads: KV cache: one token at a time
cache-wrong-axis: The new token was not put behind the old ones.
    Tokens are axis 2 of a cache (B, H, P, D).
cache-not-appended: The caches that came back do not hold the old tokens and the new one.
    The new key and value belong to it from now on.
cache-before-projection: What was appended is the token itself, not its key and value.
    Keys and values are kept after projection, so that nothing old is computed again.
blind-to-itself: The new token sees the past, but not itself.
    Its own key and value are among those it reads: attend to the new caches, not the old.
sees-itself-alone: With a cache, the new token sees only itself.
    It has to look back: attend to the new caches, with the old keys and values in them.
caches-exchanged: The caches of keys and values are swapped.
    Keys are appended to k_cache, values to v_cache, and they come back in this order.
decode-first-key-only: With a cache, the new token sees only the first key.
    A causal mask of one row, aligned at the top left, hides all but one. The newest token may see
    everything: no mask is needed.
cache-joined: Two sets of keys or values are laid one after another along {axis}.
    Past and new ones belong one after another along the tokens, dim=-2 of (B, H, S, D).
# 11, KV cache and fewer KV heads: Fewer KV heads
kv-repeat-interleaved-wrongly: Heads were laid 0 1 0 1, not 0 0 1 1.
    Each KV head serves consecutive query heads: repeat_interleave, not repeat.
groups-mixed: Of the keys and values of fewer heads some were repeated one by one
    (repeat_interleave), some all together (repeat), so a query reads the keys of one head and the
    values of another.
    Use repeat_interleave.
# 11, KV cache and fewer KV heads: Bytes: what a cache weighs
cache-bytes-batch-missing: That is the cache of one sentence.
    Each sentence of the batch has keys and values of its own: multiply by batch.
cache-bytes-one-of-kv: That is half of it.
    Keys and values are both kept: a factor of 2.
/layers-left-out: layers is left out.
    Multiply the sizes of all that is kept: it is one of them.
/seq_len-left-out: seq_len is left out.
    Multiply the sizes of all that is kept: it is one of them.
/num_kv_heads-left-out: num_kv_heads is left out.
    Multiply the sizes of all that is kept: it is one of them.
/head_dim-left-out: head_dim is left out.
    Multiply the sizes of all that is kept: it is one of them.
/bytes_per_value-left-out: bytes_per_value is left out.
    Multiply the sizes of all that is kept: it is one of them.
# 11, KV cache and fewer KV heads: Decode as it is served
pages-in-memory-order: The pages were read in the order in which they lie, not in the table's.
    The block table says which page comes first: index with it, pages[table[:count]].
tail-not-cut: The empty places behind the last token came back as well.
    The last page may be filled in part: keep the first length tokens.
/part-of-a-page-dropped: Only pages that are full were read.
    Round the number of pages up: the last may be filled in part.
/cut-at-the-start: Tokens were cut off at the start of the text.
    The empty places stand at the end: keep the first length tokens.
/pages-before-heads: Pages and heads were mixed by a reshape.
    A picked page is (H, N, D): move the heads in front of the pages first, then join pages and
    tokens.
/tokens-before-heads: Tokens stand before heads.
    The result is (H, length, D).
/table-read-to-its-end: Entries of the table were read that belong to no page of the text.
    Cut the table to the pages that length needs before you index with it.
# 11, KV cache and fewer KV heads: One latent for all heads
latent-scores-scaled: The scores were divided by a square root.
    Return them unscaled: the division comes later, before the softmax.
latent-scores-transposed: Rows are latents and columns queries.
    A row belongs to a query: the query, taken to the latent, stands on the left.
one-head-for-all: All heads were taken to the latent by the matrix of one head.
    Head h has its own matrix, w_uk[h]: `q @ w_uk` pairs them.
up-projection-transposed: w_uk was transposed.
    w_uk[h] is (D, R) and makes a key by w_uk[h] @ latent: the query stands left of it, q @ w_uk.
latents-without-head-axis: The latents (B, S, R) met (B, H, T, R): their B stands where H should.
    All heads share the latents: give them an axis of size 1 for the heads, latent[:, None].
key-not-transposed/latents: The latents were not transposed.
    A dot product of rows sums over R: swap the last two axes of the latents.
keys-made-again: The result is right, but keys were made: D numbers for a token and a head.
    Take the queries to the latents instead, q @ w_uk, and compare them there.
/latents-leave-torch: It hands numbers to NumPy or a list, where check cannot see what is made.
    Stay in torch.
# 11, KV cache and fewer KV heads: Break it: positions that start again at 0
positions-ignored/cache: With a cache, positions are counted from 0 again.
    A new token stands behind those in the cache: its positions begin at the cache's length.
# 12, FlashAttention: FlashAttention: one pass
online-max-not-corrected: The running sum was not rescaled when the maximum grew.
    Old terms were taken relative to the old maximum: multiply them by exp(old - new).
online-max-not-corrected/context: Neither the running sum nor the running context was rescaled.
    Old terms were taken relative to the old maximum: multiply both by exp(old - new).
sum-not-rescaled: The running context was rescaled, but the running sum was not.
    Both hold terms relative to the old maximum: also multiply the sum by exp(old - new).
context-not-rescaled: The running sum was rescaled, but the running context was not.
    Both hold terms relative to the old maximum: also multiply the context by exp(old - new).
online-exponent-sign: The old sum was multiplied by exp(new - old).
    It must shrink when the maximum grows: multiply by exp(old - new).
softmax-no-keepdim/block: The maximum of a block lacks the axis of keys, so it does not fit it.
    Keep that axis with keepdim=True, or put one back with [..., None].
online-max-from-zero: The running maximum starts at 0, or at another number.
    If all scores of a row are lower, none of them ever becomes the maximum. Start at -inf.
softmax-unstable/tiled: No maximum was subtracted: with large scores the exponentials overflow.
    Keep a running maximum, and take every exponential relative to it.
online-last-block-dropped: The last, shorter block is missing.
    The length need not be a multiple of the block.
# 12, FlashAttention: Do it
/keys-leave-torch: It hands all keys to NumPy or a list, where check cannot see what is held.
    Cut a block from the tensor first, and stay in torch if you can.
online-whole-row: It computes with a whole row of scores at once.
    Read one block after the other, and each once.
/blocks-read-twice: It goes through the blocks twice.
    Read each once: correct the sum when the maximum grows.
# 12, FlashAttention: Tile by tile
library-kernel: A kernel of PyTorch did the work.
    Write the loop over the blocks yourself.
partials-averaged/tiles: Each block got a softmax of its own, and the contexts were averaged.
    A block of low scores then counts as much as a block of high ones. Keep one maximum and one sum
    for the whole row, and divide once, at the end.
online-whole-row/tiles: More than (B, H, T, block_size) scores are held at once.
    Take one block of keys after the other, and keep only the running maximum, sum and context.
hidden-block-nan: A row in which all is hidden so far becomes NaN.
    Its maximum is still -inf, and -inf - (-inf) is NaN. While it is -inf, subtract 0 instead.
# 12, FlashAttention: One query, many keys
partials-averaged: The contexts were averaged.
    A share with low scores then counts as much as one with high ones: weight each by its sum times
    exp(its maximum).
partials-summed: The contexts were added up, and each of them is an average already.
    Weight each by its part of the whole sum, so that the weights add up to 1.
max-not-corrected: The sums were compared as they are, each relative to a maximum of its own.
    Bring them to one maximum first: multiply each by exp(its maximum - the largest).
/sums-ignored: The shares were weighted by their maxima alone.
    A share with many keys near its maximum counts more: multiply by its sum.
/sums-multiplied-twice: Each context was weighted by the square of its sum.
    Multiply by the sum once: the context was divided by it, and that is taken back.
/taken-as-undivided: The contexts were added up as if they had not been divided by their sums yet.
    Multiply each by its sum first: that takes the division back.
/not-divided-by-total: The weighted contexts were not divided by the sum of all weights.
    Divide once, at the end.
online-exponent-sign/partials: The shares were multiplied by exp(largest - maximum).
    The share with the largest maximum counts in full, and the others shrink.
softmax-unstable/partials: Exponentials were taken of the maxima themselves, and overflow.
    Subtract the largest of them first.
nan-gradient/partials: The result is right, but where shares are empty a gradient is NaN.
    log(0) and 0 / 0 come back in backward() although nan_to_num hides them: put a harmless number
    in their place first.
empty-share-nan: Where shares are empty, the result is NaN.
    -inf - (-inf), 0 times infinity, and 0 / 0 are NaN. Where all are empty the result is 0.
# 12, FlashAttention: Half precision
dtype-changed: The dtype has changed on the way.
    Compute in the dtype of the inputs, and return that. A narrower one loses digits that do not
    come back. New tensors take it from x: torch.zeros(3, dtype=x.dtype).
# 13, Encoder block: Layer norm: over the last axis
layer-norm-wrong-axis: The mean was taken over the wrong axis.
    Each token is normed by itself: over the last axis.
layer-norm-unbiased: The variance was divided by n - 1.
    Layer norm divides by n: var(correction=0).
layer-norm-unbiased/std: The variance was divided by n - 1, as in std, and eps is not under the
    root.
    Layer norm divides by n, and takes the root of variance + eps: see var(correction=0).
layer-norm-eps-outside: eps was added after the root.
    It belongs under it: sqrt(variance + eps).
rms-not-layer-norm: The mean was not subtracted: this is RMSNorm.
    Layer norm first subtracts the mean of each token; the variance is that of what is left.
layer-norm-no-affine: gamma, beta or both were left out.
    After the norm each channel is multiplied by its gamma, and its beta is added.
layer-norm-eps-ignored: eps was not added to the variance, or another number was.
    It is an argument: add it to the variance before the root, as it is handed in.
eps-clamped: eps is the least that the variance can be, and was not added to it.
    It is added always, under the root: (variance + eps).sqrt().
beta-before-gamma: beta was added before gamma multiplied.
    First gamma stretches the normed token, then beta shifts it: gamma * normed + beta.
gamma-beta-exchanged: gamma and beta are swapped.
    gamma multiplies the normed token, and beta is added.
layer-norm-variance-without-root: It was divided by the variance, not by its root.
    The spread of the numbers is the root: (variance + eps).sqrt().
# 13, Encoder block: Encoder block: wiring
residual-missing: A residual is missing: x itself is not added.
    Each half adds to the stream: x + attention(norm1(x)).
second-residual-from-input: The second half adds to the x that came in.
    By then the stream is x + attention(norm1(x)): feed_forward adds to that.
stream-normed: The stream itself was normed, not a copy that a part reads.
    What is added to is x as it came: x + attention(norm1(x)), and the second half alike.
parallel-block: Both parts read the x that came in.
    feed_forward reads what attention has added to: x = x + attention(norm1(x)) comes first.
norms-exchanged: norm1 and norm2 are swapped.
    norm1 stands before attention, norm2 before feed_forward.
post-norm-wiring: The norms come after the sums.
    That is post-norm. Here each half reads a normed copy, and the stream itself is never normed.
norm-shared: Both halves use one norm.
    norm1 stands before attention, norm2 before feed_forward.
# 14, Vision: Vision: patches
patchify-without-permute: Each patch holds parts of several places.
    Bring rows and columns of patches in front before flattening: permute(0, 2, 4, 1, 3, 5).
unfold-without-permute: After unfold, the channels still stand before the patches.
    Bring the axes of the patches in front before you reshape: permute(0, 2, 3, 1, 4, 5).
patchify-channels-last: Each patch is ordered (row, column, channel).
    Here it is (channel, row, column).
patchify-transposed: The patches come column by column.
    They are read row by row, as text is.
# 14, Vision: The class token: a place to gather
class-token-last: The class token stands last.
    It comes first, before the patches.
# 15, Language model: Language model: what comes next
targets-not-shifted: Targets are the inputs themselves.
    The target of a token is the next one.
targets-shifted-wrong-way: Each token should predict the one before it.
    Targets lie one position ahead: ids[:, 1:].
# 15, Language model: Writing
generate-wrong-position: The next word was read at the wrong position.
    The prediction of the next word is in the logits of the last token.
generate-reads-last-word-only: The model was given the last word alone.
    What comes next depends on all words so far: model(ids), and of its logits the last row.
generate-asked-once: The model never read the words that it wrote.
    Each new word changes what comes next: call model(ids) again with the word appended.
generate-samples: Two calls differ: the next word is drawn at random.
    Here the likeliest word is taken, each time: argmax.
# 15, Language model: Choosing the next word
temperature-multiplied: The logits were multiplied by the temperature.
    Divide by it: a temperature below 1 moves the logits apart, one above 1 moves them together.
temperature-ignored: The temperature changes nothing.
    Divide the logits by it before the softmax.
temperature-after-softmax: The probabilities were divided by the temperature, not the logits.
    Then they no longer sum to 1, and their order of size is as before. Divide first, then softmax.
not-renormalised: What is left does not sum to 1.
    The others were set to 0 after the softmax. Hide their logits with -inf, or divide by the sum.
top-k-ignored: All words are kept.
    Only the top_k largest of each row keep a probability; the others get exactly 0.
top-k-filled-with-zero: Words that are not kept got the logit 0, not the probability 0.
    A logit of 0 is a logit like any other: exp(0) is 1. Fill with -inf.
top-k-one-short: One word too few is kept.
    The smallest of the top_k is one of them: hide what is smaller than it, and not what equals it.
softmax-over-batch/words: The probabilities sum to 1 over the sentences, not over the words.
    The words are the last axis: softmax(-1).
top-k-none: top_k was None, but the code used it as a number.
    Keep all words then: choose only if top_k is not None.
# 15, Language model: Speculative decoding
ratio-inverted: The ratio is upside down.
    A draft that the large model likes less is kept less often: with probability p/q, not q/p.
always-accepts: Every draft is accepted.
    Then the small model writes. Keep a draft only if uniform < p[draft] / q[draft].
dice-ignored: The code decides without uniform.
    Where p is half of q, half of the drafts are to be kept: compare uniform with p/q.
accepted-by-p-alone: uniform was compared with p, not with p/q.
    The draft came up with probability q already. Divide by it: uniform < p[draft] / q[draft].
accepted-and-refused: The code accepts what it should refuse, and refuses the rest.
    accepted is True where uniform lies below p/q.
probability-not-decision: The code returned the probability of accepting, not the decision.
    accepted is True or False: uniform < p[draft] / q[draft].
zero-accepted: A word with p = 0 can be accepted.
    uniform may be 0, and 0 <= 0. Ask for less: uniform < p[draft] / q[draft].
redrawn-from-p: The word is redrawn from p itself.
    Drafts have already supplied what p and q share. Redraw from what is left: max(p - q, 0).
residual-not-clipped: Words that the small model likes more are in the residual.
    There p - q is negative: set it to 0, clamp(min=0), and then divide by the sum.
residual-not-normalised: The residual does not sum to 1.
    Divide it by its sum.
residual-reversed: The residual is what q has more than p.
    Those words were drafted too often. Redraw the ones that were drafted too rarely: max(p - q, 0).
residual-softmax: The residual went through a softmax.
    Then words that should get 0 get a share. These are probabilities already: divide by their sum.
residual-of-equals: Where p equals q, the residual is not p.
    All differences are 0, and so is their sum. Return p then.
residual-where-accepted: For accepted drafts, the code returned another residual.
    The residual does not depend on uniform: return the same one in both cases.
# 17, What heads do: Ablation: what breaks without a head
ablate-in-place: The context itself was changed.
    Work on a copy, so that other heads can be tried: clone().
ablate-wrong-axis: What was silenced is not the heads.
    Heads are axis 1 of (B, H, S, D).
ablate-wrong-axis/shorter: The heads were looked for on an axis that is too short.
    Heads are axis 1 of (B, H, S, D): context[:, heads].
ablate-complement: The listed heads were kept, and all others silenced.
    It is the listed ones whose context becomes 0.
# 17, What heads do: Do it: one number for each head
relation-summed: The weights of the pairs were added up.
    With more pairs the sum grows: divide by how many there are, or take the mean.
relation-transposed: The weights were read from key to query.
    Rows are queries, so a pair is read as weights[from, to].
# 17, What heads do: A weight is not a contribution
weights-only: The weights came back.
    They say what share of a value is taken, but not how long it is, nor what W_O makes of it.
norm-of-value: The values were measured before W_O.
    Send each value through its head's columns of W_O first: W_O stretches some and drops others.
contribution-unweighted: The weights were left out.
    These are the lengths with all the weight on s. Multiply them by the weights.
norm-squared: The squares of the lengths came back.
    The length is the root of the sum of squares: norm(dim=-1).
contribution-of-all-heads: The heads were added before their lengths were taken.
    Each head has a length of its own for each pair, so keep the axis H until the norm is taken.
output-columns-as-rows/contribution: W_O was cut by rows.
    Its columns read the heads: D columns for each head.
# 17, What heads do: Deeper: other maps, the same output
same-weights: These are the weights that came in: none has moved by 0.001.
    Add to each row a step along a direction that changes neither its context nor its sum.
negative-weights: Some of the weights are negative.
    Take a shorter step: stop when the first weight of the row reaches 0.
sum-moved: Rows no longer sum to 1.
    Give v a column of ones before you look for the direction. Then the direction keeps the sum.
context-moved: They are weights, but the context has moved.
    What you add to a row must give 0 when it is multiplied by v.
# 18, Real models: What is in the file
not-transposed: The weight was cut into q, k and v, and not transposed.
    GPT-2 keeps (in, out), and nn.Linear (out, in): each of the three must be transposed.
not-transposed/reshaped: A reshape or view gave the weight its shape.
    It is no transpose: the numbers stay in their order. weight.T turns columns into rows.
chunk-wrong-axis/stored: The axis in was cut, which has no q, k and v in it.
    q, k and v lie side by side along out: columns of (in, out), rows after the transpose.
fused-three-innermost/stored: Every third column was taken.
    The thirds are blocks: first all C columns of q, then those of k, then those of v.
# 18, Real models: Do it: your attention inside GPT-2
not-transposed/c_attn: c_attn.weight was used as nn.Linear would keep it.
    It is stored as (in, out): x @ c_attn.weight, without a transpose.
not-transposed/c_proj: c_proj.weight was used as in an nn.Linear. It is square: nothing crashes.
    It is stored as (in, out): merged @ c_proj.weight, without a transpose.
not-transposed/into-linear: A stored weight was put into an nn.Linear as it is.
    nn.Linear keeps (out, in), and the file (in, out): transpose it first.
/no-such-tensor: The file has no tensor of this name.
    state has c_attn.weight, c_attn.bias, c_proj.weight and c_proj.bias.
causal-ignored/gpt2: Tokens see what comes later.
    GPT-2 is causal: hide later keys before the softmax, or call the kernel with is_causal=True.
causal-leaks-next/gpt2: Each token sees the next one.
    The lower triangle ends at the diagonal: tril().
causal-hides-self/gpt2: The diagonal is hidden, and the first token sees nothing.
    A token sees itself: tril().
mask-inverted/gpt2: Each token sees itself and what comes later.
    The causal mask is the lower triangle: tril(), and not triu().
# 18, Real models: Llama: whose pairs?
heads-ignored: The even rows of all heads were brought before the odd rows of all heads.
    A pair stays in its head: cut the rows into heads first, and reorder inside each.
half-split-inverted: This is the way back: it makes interleaved pairs of half-split ones.
    In each head the order should be 0, 2, 4, … and then 1, 3, 5, …: cut as (D/2, 2), transpose.
columns-reordered: The columns were reordered.
    The rows of the weight make the channels of q and k. The columns read x, whose order stays.
columns-reordered/as-rows: The columns were reordered, and came back as rows.
    In (out, in) the rows, which make the channels of q and k, stand first: nothing to transpose.
/heads-and-pairs-swapped: Heads changed places with pairs, and rows left their heads.
    After the cut to (H, D/2, 2, C) axes 1 and 2 change places, and the heads stay first.
/rows-of-every-head: The rows were cut as if a head had every H-th of them.
    A head has D rows side by side, and in them its pairs: cut as (H, D/2, 2), heads first.
/fewer-rows: The weight has another number of rows than the answer takes for granted.
    k_proj may have fewer rows than columns: weight.size(0) rows are H*D, and a head has D of them.
# 19, Bug hunt: What is true of every right one
no-mistake: There is no mistake.
    The code below looks odd, but computes the same.
rope-interleaved/module: RoPE pairs neighbouring channels: the other layout.
    It is as valid, for parameters that were trained with it.
merge-batch-mixed/module: The merge mixes the sentences of a batch.
    The batch stays in front: swap only heads and tokens.
merge-without-transpose/module: The heads are merged without the transpose.
    Each token then gets parts of others: swap heads and tokens first, then join.
view-without-transpose/module: The heads are split without the transpose.
    Each head then holds parts of several tokens: cut C into (H, D), then swap tokens and heads.
kv-repeat-interleaved-wrongly/module: The KV heads are repeated as 0 1 0 1, not as 0 0 1 1.
    Each KV head serves consecutive query heads: repeat_interleave, not repeat.
dropout-at-eval/module: Dropout also runs when the model is not training.
    F.dropout and scaled_dot_product_attention do not know: pass self.training on.
keys-rotated-again: With a cache, keys are rotated a second time.
    A key is rotated once, by its own position, before it goes into the cache.
cache-not-emptied: With a cache, a text still sees the text before it.
    Each text begins with an empty cache of its own.
window-off-by-one: The window is one token too wide.
    A window of W holds a token itself and the W - 1 before it.
texts-see-each-other: Texts that are packed into one row see each other.
    A mask that hides padding does not part texts: compare the numbers of the texts.
softmax-half-precision: The softmax runs in half precision.
    It keeps about three digits and ends at 65,504: compute it in float32 or better.
keys-detached: The keys are cut off from the gradient.
    detach() stops the gradient: W_K stays as it was drawn, and the rest learns to live with it.
"""


def _rows(table: str) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    section = ""
    for entry in re.split(r"\n(?=\S)", table.strip()):
        if entry.startswith("# "):
            section = entry.removeprefix("# ")
            continue
        title, _, why = f"{entry}\n".partition(".\n")
        key, title = " ".join(title.split()).split(": ", 1)
        if key in rows:
            raise ValueError(f"two mistakes have the key {key}")
        rows[key] = Row(key, f"{title}.", " ".join(why.split()), section)
    return rows


ROWS = _rows(TABLE)
