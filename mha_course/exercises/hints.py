"""The hints of every exercise as data: a question, a pointer, the shape of the decisive line, and the line itself.

The first three rungs are prose, with names of code between backticks; the fourth is nothing but code, in the
names of the lesson. Where it is not the whole body, it is the part that the rest hangs on.
"""

from __future__ import annotations

# Longer than 250 lines: data, four rungs for each exercise, in the order of the lessons.
Rungs = tuple[str, str, str, str]

HINTS: dict[str, Rungs] = {
    # 0 Start here
    "similarity": (
        "Which two vectors meet in the number at row t and column s?",
        "A table of dot products is a matrix product: rows of the left one with columns of the right one. "
        "See step 1 of “One attention by hand”.",
        "x (S, C) times something of shape (C, S) gives (S, S).",
        "return x @ x.T  # (S, S)",
    ),
    # 1 Projection
    "project": (
        "weight is stored as (out, in). Which of its two axes must meet the C numbers of a token?",
        "A matrix product and a sum. `@` joins the last axis of the left with the last but one of the right. "
        "See “A Linear, taken apart”.",
        "x (B, S, C) times a matrix (C, out) gives (B, S, out); the bias (out) is added to every token.",
        "return x @ weight.T + bias  # (B, S, out)",
    ),
    "project_qkv": (
        "How many products do you need, if the three weights already lie on top of each other?",
        "Project as before, then cut the result, not the weights. `chunk` cuts into equal parts along an axis: "
        "which one? See “Three Linears or one”.",
        "x (B, S, C) times (C, 3C), plus the bias, gives (B, S, 3C). Cut along its last axis, it is three tensors "
        "(B, S, C), in the order q, k, v.",
        "qkv = x @ w_qkv.T + b_qkv  # (B, S, 3*C)\nreturn qkv.chunk(3, dim=-1)  # (B, S, C) each",
    ),
    # 2 Head splitting
    "split_heads": (
        "In which order do the C numbers of a token lie in memory, and where does head 1 begin?",
        "Two moves: first cut the last axis, then swap two axes. Neither moves a number. "
        "See “The split, cell by cell”.",
        "(B, S, C) is cut to (B, S, H, D); then tokens and heads change places, which gives (B, H, S, D).",
        "apart = x.unflatten(2, (num_heads, -1))  # (B, S, H, D)\nreturn apart.transpose(1, 2)  # (B, H, S, D)",
    ),
    "split_fused_qkv": (
        "The last axis holds 3 · H · D numbers. Which of the three changes slowest as you walk along it?",
        "Cut the last axis into three, in the order in which it was stacked; then `permute`, and take q, k and v "
        "apart. See “A fused q, k, v”.",
        "(B, S, 3C) is cut to (B, S, 3, H, D). Brought into the order (3, B, H, S, D), its first axis holds q, k "
        "and v.",
        "apart = qkv.unflatten(2, (3, num_heads, -1))  # (B, S, 3, H, D)\n"
        "return apart.permute(2, 0, 3, 1, 4).unbind(0)  # (B, H, S, D) each",
    ),
    "one_head_queries": (
        "Which rows of w_q make the numbers of this head, and how much of x do they read?",
        "A head owns D rows of w_q, one head after the other, and reads all of x. `chunk` or a slice takes them "
        "out. See “A fused q, k, v” and the end of lesson 1.",
        "The rows of one head are (D, C); x (B, S, C) times their transpose (C, D) gives (B, S, D).",
        "rows = w_q.chunk(num_heads)[head]  # (D, C)\nreturn x @ rows.T  # (B, S, D)",
    ),
    # 3 Scaling
    "attention_scores": (
        "The result has no axis D. Where must D stand in k, so that the product sums over it?",
        "One matrix product of the last two axes; `@` repeats it for every sentence and head. See “All pairs at once”.",
        "q (B, H, T, D) times k with its last two axes swapped, (B, H, D, S), gives (B, H, T, S).",
        "return q @ k.transpose(-2, -1)  # (B, H, T, S)",
    ),
    "scaled_scores": (
        "By how much does the spread of a dot product grow when a head gets wider?",
        "Divide by a root. The shape of q tells the width of one head. See “How large is a dot product?”.",
        "The scores (B, H, T, S) are divided by one number, which is made from the last size of q, D.",
        "return q @ k.transpose(-2, -1) / q.size(-1) ** 0.5  # (B, H, T, S)",
    ),
    "score_form": (
        "A score is (W_Q x_t) · (W_K x_s). Write it without the brackets: what stands between x_t and x_s?",
        "Take the D rows of the head out of both weights, as in `one_head_queries`, and multiply them with each "
        "other. See “One matrix for each head”.",
        "The head has (D, C) of both weights. Those of w_q transposed, (C, D), times those of w_k give (C, C).",
        "rows_q, rows_k = w_q.chunk(num_heads)[head], w_k.chunk(num_heads)[head]  # (D, C)\n"
        "return rows_q.T @ rows_k  # (C, C)",
    ),
    # 4 Softmax
    "softmax": (
        "What may you add to all scores of a row without changing its weights, and which choice prevents overflow?",
        "Subtract the largest score of a row, raise e to what is left, and divide by the sum of the row. "
        "`keepdim=True` keeps the axis. See “A softmax that does not overflow”.",
        "The largest of each row is (B, H, T, 1). The exponentials (B, H, T, S) are divided by their sums, "
        "(B, H, T, 1).",
        "exponentials = (scores - scores.amax(-1, keepdim=True)).exp()  # (B, H, T, S)\n"
        "return exponentials / exponentials.sum(-1, keepdim=True)  # (B, H, T, S)",
    ),
    "entropy": (
        "What does 0 · log 0 give in floating point, and what should it give here?",
        "Each weight times its logarithm, summed, with a minus. `torch.special.xlogy` takes 0 · log 0 as 0. "
        "See “Temperature and entropy”.",
        "Number by number from (…, S) to (…, S), then a sum over the last axis: (…).",
        "return -torch.special.xlogy(weights, weights).sum(-1)",
    ),
    "masked_softmax": (
        "Which score gives a weight of exactly 0? And what comes out of a row in which all scores are like that?",
        "Fill hidden scores with -inf before the softmax. Rows with nothing to see need a treatment of their own; "
        "`mask.any` finds them. See “Hiding words”.",
        "`mask.any` over the keys, with the axis kept, is (…, T, 1): which rows see something. The others get "
        "harmless scores before the softmax, and times 0 behind it. All else is (B, H, T, S).",
        "sees = mask.any(-1, keepdim=True)  # (…, T, 1)\n"
        "scores = scores.masked_fill(~mask, -torch.inf).masked_fill(~sees, 0.0)\n"
        "return torch.softmax(scores, dim=-1) * sees  # (B, H, T, S)",
    ),
    # 5 Weighted sum
    "weighted_sum": (
        "The context of one query is a mixture. How many numbers does it have, and over what is it summed?",
        "One matrix product, with the shares on the left. See “A context and what it is made of”.",
        "weights (B, H, T, S) times v (B, H, S, D): S is summed away, and (B, H, T, D) is left.",
        "return weights @ v  # (B, H, T, D)",
    ),
    "self_attention": (
        "Which five steps lead from x to the context, and which of them must know the width?",
        "Project, compare, scale, softmax, mix: you have written all five. This head is as wide as the token. "
        "See “A whole head”.",
        "q, k, v are (B, S, C). Scores and weights are (B, S, S), with a softmax over the last axis. The context "
        "is (B, S, C) again.",
        "weights = torch.softmax(q @ k.transpose(1, 2) / q.size(-1) ** 0.5, dim=-1)  # (B, S, S)\n"
        "return weights @ v, weights",
    ),
    # 6 Concatenation
    "merge_heads": (
        "In the context the heads stand before the tokens. Which two axes must be neighbours before you join them?",
        "Undo the split backwards: first swap, then join. The join has to copy, so `view` refuses. "
        "See “The merge, cell by cell”.",
        "(B, H, S, D) becomes (B, S, H, D) by the swap, and (B, S, C) by joining the last two axes.",
        "return context.transpose(1, 2).flatten(2)  # (B, S, C)",
    ),
    "head_contributions": (
        "The merged context times w_oᵀ sums over C numbers a token. Which of them come from one head?",
        "Cut w_o by columns, D for each head, and multiply each head by its own columns only. "
        "See “W_O: where the heads meet”.",
        "w_o (C, C) with its second axis cut is (C, H, D). With the context (B, H, S, D), sum over D and keep H: "
        "(B, H, S, C).",
        "columns = w_o.unflatten(1, (context.size(1), -1))  # (C, H, D)\n"
        'return torch.einsum("bhsd,chd->bhsc", context, columns)  # (B, H, S, C)',
    ),
    "build_subtractor": (
        "If head 0 fetches c_a and head 1 fetches c_b, where can the minus come from?",
        "In w_q the query token's channel, in w_k the channel of the flag: where both are large, the score is. "
        "w_v hands over the content. See “Two heads that subtract”.",
        "Four matrices (3d, 3d) of zeros. Head h owns rows h · 3d/2 and on, columns in w_o. It needs one entry in "
        "w_q, one in w_k, d in w_v, and d in w_o with its sign.",
        "for head, sign in ((0, 1.0), (1, -1.0)):\n"
        "    first = head * 3 * d // 2\n"
        "    w_q[first, d + 2] = w_k[first, d + head] = 100.0\n"
        "    for channel in range(d):\n"
        "        w_v[first + channel, channel] = 1.0\n"
        "        w_o[channel, first + channel] = sign",
    ),
    # 7 Multi-head attention
    "multi_head_attention": (
        "Which of your functions of lessons 1 to 6 does each step need, and in which order?",
        "Project, split, compare and scale, softmax, mix, merge, project. Paste your functions in and call them; "
        "the mask decides which softmax. See “The whole pass in one picture”.",
        "q, k, v are (B, H, S, D), scores and weights (B, H, S, S), the context (B, H, S, D), the merged heads "
        "(B, S, C), and so is the output.",
        "scores = scaled_scores(q, k)  # (B, H, S, S)\n"
        "weights = softmax(scores) if mask is None else masked_softmax(scores, mask)\n"
        "context = weighted_sum(weights, v)  # (B, H, S, D)\n"
        "return merge_heads(context) @ w_o.T, weights",
    ),
    "MultiHeadAttention": (
        "What has to be made once, when the module is built, and what at every call?",
        "Four `nn.Linear` and the number of heads belong into `__init__`, the steps of `multi_head_attention` "
        "into `forward`.",
        "Each Linear maps (B, S, C) to (B, S, C). Three results are split to (B, H, S, D); out_proj takes the "
        "merged heads (B, S, C).",
        "# in __init__, and likewise k_proj, v_proj, out_proj\n"
        "self.q_proj = nn.Linear(d_model, d_model)\n"
        "# in forward, and likewise k and v\n"
        "q = split_heads(self.q_proj(x), self.num_heads)  # (B, H, S, D)\n"
        "# and at its end\n"
        "return self.out_proj(merge_heads(context))",
    ),
    "parameter_count": (
        "Does each head have matrices of its own, or rows of one that all heads share?",
        "Count the weights of the four Linears, and their biases where there are any. "
        "See “What the number of heads changes, and what not”.",
        "Four times C · C weights, and with bias four times C more. One argument plays no part. The result is an int.",
        "return 4 * (d_model * d_model + (d_model if bias else 0))",
    ),
    "fold_value_bias": (
        "b_v is added to the value of every token alike. What is left of it in a mixture with shares that sum to 1?",
        "It comes through the mixing whole, and meets the output projection like everything else. "
        "See “A bias that is not needed”.",
        "w_o (C, C) times b_v (C) gives (C), and b_o (C) is added.",
        "return w_o @ b_v + b_o  # (C)",
    ),
    # 8 Masks
    "causal_mask": (
        "May token t see token s if s = t? And if s = t + 1?",
        "True on the diagonal and below it: `tril` of a matrix of True. Lesson 4 drew one.",
        "A bool matrix (S, S), a row for each query and a column for each key, True where s <= t.",
        "return torch.ones(seq_len, seq_len, dtype=torch.bool).tril()  # (S, S)",
    ),
    "padding_mask": (
        "A sentence of 3 words is filled up to 5. Which places are real?",
        "Compare the places 0, 1, 2, … with the length of each sentence, and let broadcasting make the table. "
        "Axes of size 1 make it fit every head and every query.",
        "The places are (S), the lengths as a column (B, 1). Compared they are (B, S), and with two more axes "
        "(B, 1, 1, S).",
        "real = torch.arange(max_len) < lengths[:, None]  # (B, S)\nreturn real[:, None, None]  # (B, 1, 1, S)",
    ),
    "combine_masks": (
        "True means may attend. If two masks have a say, when may a token attend?",
        "A logical “and”, number by number. Broadcasting does the rest.",
        "(S, S) meets (B, 1, 1, S), and broadcasting gives (B, 1, S, S).",
        "return causal & padding  # (B, 1, S, S)",
    ),
    "causal_mask_for_cache": (
        "The first new token stands at place total - new. Which keys lie there or before?",
        "`tril` takes a second argument, which moves the diagonal. The last row must see everything: the triangle is "
        "aligned at the bottom right.",
        "A bool matrix (new, total): the lower triangle, with its diagonal moved right by the number of cached tokens.",
        "return torch.ones(new, total, dtype=torch.bool).tril(total - new)  # (new, total)",
    ),
    "to_attend": (
        "In which conventions does True hide a key, and which number hides one when it is added to a score?",
        "`sdpa` means what the course means, `multihead` and `seaborn` mean the opposite. An additive mask leaves a "
        "score alone where it adds 0.",
        "Every branch keeps the shape of mask, such as (T, S), and gives bool: the mask, its opposite, or a "
        "comparison with 0.",
        'if convention == "additive":\n    return mask == 0\n'
        'return ~mask if convention in ("multihead", "seaborn") else mask',
    ),
    "additive_mask": (
        "What must be added to a score to leave it alone, and what to hide it?",
        "Start from zeros of the right dtype and fill in where the mask is False. Multiplying would not do: "
        "0 · inf is NaN.",
        "A bool mask (…) gives numbers (…): 0 where it is True, -inf where it is False.",
        "return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, -torch.inf)",
    ),
    # 9 Cross-attention
    "cross_attention": (
        "Who asks, and who is asked? Which of q, k and v come from x?",
        "Take `multi_head_attention` and give keys and values another source. Nothing wants T and S to be equal.",
        "From x, q is (B, H, T, D). From memory, k and v are (B, H, S, D). So weights are (B, H, T, S), and out is "
        "(B, T, C).",
        "q = split_heads(x @ w_q.T, num_heads)  # (B, H, T, D)\n"
        "k = split_heads(memory @ w_k.T, num_heads)  # (B, H, S, D)\n"
        "v = split_heads(memory @ w_v.T, num_heads)  # (B, H, S, D)",
    ),
    # 10 Positions
    "sinusoidal_encoding": (
        "How many different frequencies do d_model channels hold, if a sine and a cosine share each?",
        "First a table of angles, places by frequencies; frequency i is 10000 to the power of -2i / d_model. Then "
        "fill every other channel: a slice can have a step.",
        "Places (S, 1) times frequencies (C/2) are angles (S, C/2). Their sines and cosines take turns in the "
        "channels of (S, C).",
        "rates = 10000.0 ** -(torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)  # (C/2)\n"
        "angles = torch.arange(seq_len)[:, None] * rates  # (S, C/2)\n"
        "encoding[:, 0::2], encoding[:, 1::2] = angles.sin(), angles.cos()",
    ),
    "rope": (
        "Two numbers are a point in a plane. What does a rotation make of them, and what should set its angle?",
        "Number i and number i + D/2 are a pair. Turn each pair by its position times its frequency, base to the "
        "power of -2i / D. A rotation has two sines, two cosines and one minus.",
        "Angles are (S, D/2), positions by frequencies. The halves a and b of x are (B, H, S, D/2); two mixtures of "
        "them, joined, are (B, H, S, D).",
        "cos, sin = angles.cos(), angles.sin()  # (S, D/2)\n"
        "a, b = x.chunk(2, dim=-1)  # (B, H, S, D/2)\n"
        "return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)  # (B, H, S, D)",
    ),
    # 11 KV cache and fewer KV heads
    "decode_step": (
        "The new token needs its own q, k and v. What does it need of the tokens before it, and what not?",
        "Project and split the one token, append its key and value to the caches, and attend with its query to all "
        "of them. No mask is needed: nothing in the cache lies in the future.",
        "q, k, v of the new token are (B, H, 1, D). Both caches grow from (B, H, P, D) to (B, H, P + 1, D). Its "
        "weights are (B, H, 1, P + 1).",
        "q, k, v = (split_heads(x_t @ w.T, num_heads) for w in (w_q, w_k, w_v))  # (B, H, 1, D)\n"
        "k_cache = torch.cat((k_cache, k), dim=2)  # (B, H, P + 1, D)\n"
        "v_cache = torch.cat((v_cache, v), dim=2)",
    ),
    "repeat_kv": (
        "With 2 KV heads and 6 query heads, which KV head serves query head 2?",
        "Each KV head is written several times in a row; `repeat` would write the whole row of heads several times. "
        "Look for another function with repeat in its name.",
        "Along axis 1, (B, H_kv, S, D) becomes (B, H, S, D): each head comes H / H_kv times.",
        "return k.repeat_interleave(num_heads // k.size(1), dim=1)  # (B, H, S, D)",
    ),
    "kv_cache_bytes": (
        "What is kept for one token in one layer, and how many numbers is that?",
        "Multiply the sizes of all that is kept. Keys and values are two things.",
        "Each layer keeps two tensors (B, H_kv, S, D), at so many bytes a number. The result is an int.",
        "return 2 * layers * batch * seq_len * num_kv_heads * head_dim * bytes_per_value",
    ),
    # 12 FlashAttention
    "online_softmax": (
        "A sum of exponentials was taken with an old maximum, and a larger score arrives. What puts the sum right?",
        "Go through the blocks with `split`. In each, find the new maximum, put the old sum right, and add the "
        "block's own exponentials. Begin with -inf and 0.",
        "A block is (…, block_size), the last one perhaps shorter. Running maximum and sum are (…), and so is the "
        "factor exp(old maximum - new maximum).",
        "for block in scores.split(block_size, dim=-1):\n"
        "    new_max = torch.maximum(running_max, block.amax(-1))\n"
        "    shares = (block - new_max[..., None]).exp()\n"
        "    running_sum = running_sum * (running_max - new_max).exp() + shares.sum(-1)\n"
        "    running_max = new_max",
    ),
    "tiled_attention": (
        "A context is one sum over the keys divided by another. What can be summed block by block, and when do "
        "you divide?",
        "As in `online_softmax`, with one more running sum: exponentials times values. Both are put right when the "
        "maximum grows. Divide once, at the end. Do not forget to scale.",
        "A block of keys has scores (B, H, T, block_size). Running maximum and sum are (B, H, T, 1), the running "
        "context is (B, H, T, D).",
        "new_max = torch.maximum(running_max, scores.amax(-1, keepdim=True))\n"
        "factor, shares = (running_max - new_max).exp(), (scores - new_max).exp()\n"
        "running_sum = running_sum * factor + shares.sum(-1, keepdim=True)\n"
        "context = context * factor + shares @ v_block\n"
        "running_max = new_max",
    ),
    # 13 Encoder block
    "layer_norm": (
        "Over which numbers do mean and variance go: the channels of a token, the tokens, or the batch?",
        "Subtract the mean, divide by the root of variance plus eps, then stretch by gamma and shift by beta. The "
        "variance divides by C, not by C - 1.",
        "Over the last axis, with the axis kept, mean and variance are (B, S, 1). gamma and beta are (C).",
        "centred = x - x.mean(-1, keepdim=True)\n"
        "variance = (centred**2).mean(-1, keepdim=True)\n"
        "return centred / (variance + eps).sqrt() * gamma + beta",
    ),
    "encoder_block": (
        "In pre-norm, what goes past attention on the residual path: x, or the normalised x?",
        "One pattern, twice: x plus what a part makes of the normalised x. Each part has its own norm.",
        "Every call maps (B, S, C) to (B, S, C). First attention with norm1; then, on that result, feed_forward "
        "with norm2.",
        "x = x + attention(norm1(x))  # (B, S, C)\nreturn x + feed_forward(norm2(x))  # (B, S, C)",
    ),
    # 14 Vision
    "patchify": (
        "In memory an image lies row after row. Which axes must be neighbours before a patch can be flattened?",
        "Cut height and width into patches and pixels, bring both patch axes to the front with `permute`, and "
        "flatten. It is the head split, in two directions.",
        "(B, 3, H, W) is cut to (B, 3, H/P, P, W/P, P), ordered as (B, H/P, W/P, 3, P, P) and flattened to "
        "(B, N, 3·P·P).",
        "cut = images.unflatten(3, (-1, patch_size)).unflatten(2, (-1, patch_size))  # (B, 3, H/P, P, W/P, P)\n"
        "return cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # (B, N, 3·P·P)",
    ),
    "add_class_token": (
        "The class token is one vector. How does it get into every image of the batch?",
        "`expand` shows one vector B times, `torch.cat` joins along the tokens. Mind which goes first.",
        "class_token (C) becomes (B, 1, C). Joined with (B, N, C) along axis 1, it is (B, N + 1, C).",
        "first = class_token.expand(patches.size(0), 1, -1)  # (B, 1, C)\n"
        "return torch.cat((first, patches), dim=1)  # (B, N + 1, C)",
    ),
    # 15 Language model
    "next_token_targets": (
        "Which token should be named after token t has been read, and which token has nothing behind it?",
        "Two slices of the same ids, one place apart.",
        "ids (B, S) without the last column, and without the first: (B, S - 1) each.",
        "return ids[:, :-1], ids[:, 1:]  # (B, S - 1) each",
    ),
    "generate": (
        "The model gives an answer for every place. At which place is the next word told?",
        "A loop: run the model on all ids so far, pick the largest number at the right place, and append it.",
        "model(ids) is (B, S, vocab), and at one place (B, vocab). `argmax` with the axis kept gives (B, 1), and "
        "appending makes ids (B, S + 1).",
        "for _ in range(steps):\n"
        "    best = model(ids)[:, -1].argmax(-1, keepdim=True)  # (B, 1)\n"
        "    ids = torch.cat((ids, best), dim=1)",
    ),
    # 16 Why many heads
    "relation_score": (
        "A pair leads from one token to another. Which of the two is the query, and on which axis do queries stand?",
        "Two lists of indices pick the weights of all pairs at once. Then take the mean over the pairs.",
        "weights (H, S, S), picked at n rows and n columns, is (H, n); its mean over the last axis is (H).",
        "rows, columns = torch.tensor(pairs).T\nreturn weights[:, rows, columns].mean(-1)  # (H)",
    ),
    "ablate_heads": (
        "What becomes of the caller's tensor if you write zeros into it?",
        "Work on a `clone`. A list can be an index: on which axis are the heads?",
        "context (B, H, S, D) stays as it is. In a copy of the same shape, the listed places of axis 1 are 0.",
        "silenced = context.clone()  # (B, H, S, D)\nsilenced[:, heads] = 0.0\nreturn silenced",
    ),
    "other_weights": (
        "What may you add to a row of weights that changes neither its sum nor its mixture of the values?",
        "A direction that v and a column of ones both take to 0: S > D + 1 leaves one, and `torch.linalg.svd` finds "
        "it. Follow it while no weight gets negative.",
        "v beside a column of ones is (S, D + 1). The direction (S) is the last row of Vh of its transpose. Add to "
        "weights (T, S) a step (T, 1) times the direction.",
        "kept = torch.cat((v, torch.ones_like(v[:, :1])), dim=1)  # (S, D + 1)\n"
        "direction = torch.linalg.svd(kept.T).Vh[-1]  # (S)\n"
        "room = (weights / -direction).where(direction < 0, torch.inf).amin(-1, keepdim=True)\n"
        "return weights + room / 2 * direction  # (T, S)",
    ),
}
