"""Names of the variables of programs as people write them, the same where sizes coincide as where
all differ.
"""
# ruff: noqa: RET504 (what is returned has a name, since names are tested)

import types

import pytest
import torch
from torch import nn

from mha_course.tracing import trace

PROGRAMS = {}
COINCIDENCES = [
    {}, {"H": 6}, {"S": 6}, {"S": 4}, {"B": 4}, {"P": 5}, {"S": 24}, {"S": 8},
    {"B": 4, "S": 4, "D": 4, "P": 4},
    {"rope": 9}, {"v": 4}, {"rank": 24, "rope": 24}, {"nope": 6, "v": 6},
    {"nope": 8, "rope": 8, "v": 8, "rank": 8},
]  # fmt: skip


def program(axes, *sizes, **expected):
    """Enter what makes a call and its arguments of sizes and a maker of tensors, and the names of
    its variables.
    """

    def enter(build):
        PROGRAMS[build.__name__] = (
            build,
            axes,
            sizes,
            {name: tuple(text.split()) for name, text in expected.items()},
        )

    return enter


@program("B T C", "H", k="B H S D", v="B H S D", scores="B H T S", out="B T C")
def keys_read_from_a_cache(z, draw):
    cache = torch.zeros(z.B + 1, 40, z.H, z.D), torch.zeros(z.B + 1, 40, z.H, z.D)
    w = [nn.Linear(z.C, z.C) for _ in range(3)]

    def step(x, start):
        batch, tokens, width = x.shape
        q, k, v = (layer(x).view(batch, tokens, z.H, -1) for layer in w)
        cache[0][:batch, start : start + tokens] = k
        cache[1][:batch, start : start + tokens] = v
        k, v = (kept[:batch, : start + tokens].transpose(1, 2) for kept in cache)
        scores = q.transpose(1, 2) @ k.mT
        out = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, tokens, width)
        return out, k, v

    return step, draw(z.B, z.S, z.C).float(), z.P


@program(
    ("B T C", "B H P D"), "H", keys="B H S D", at="T", all_keys="S", seen="T S", scores="B H T S"
)
def masks_made_beside_a_cache(z, draw):
    def step(x, past):
        q = x.unflatten(-1, (z.H, -1)).transpose(1, 2)
        keys = torch.cat([past, q], 2)
        start, tokens = past.size(2), x.size(1)
        at, all_keys = torch.arange(start, start + tokens), torch.arange(start + tokens)
        seen = all_keys[None, :] <= at[:, None]
        scores = (q @ keys.mT).masked_fill(~seen, float("-inf"))
        return scores, keys

    return step, draw(z.B, z.S, z.C), draw(z.B, z.H, z.P, z.D)


@program("B T C", q="B H T D", q_nope="B T H D_nope", q_rope="B T H D_rope", latent="B T kv_rank",
    k_rope="B T D_rope",
         k_nope="B T H D_nope", v="B T H D_v", scores="B H T S", out="B T H D_v")  # fmt: skip
def latent_attention(z, draw):
    m = nn.Module()
    m.num_heads, m.kv_lora_rank, m.qk_nope_head_dim, m.qk_rope_head_dim = (
        z.H,
        z.rank,
        z.nope,
        z.rope,
    )
    m.v_head_dim = z.v
    m.q, m.down = nn.Linear(z.C, z.H * (z.nope + z.rope)), nn.Linear(z.C, z.rank + z.rope)
    m.up = nn.Linear(z.rank, z.H * (z.nope + z.v))

    def forward(x):
        q_nope, q_rope = m.q(x).view(*x.shape[:2], z.H, -1).split([z.nope, z.rope], -1)
        latent, k_rope = m.down(x).split([z.rank, z.rope], -1)
        k_nope, v = m.up(latent).view(*x.shape[:2], z.H, z.nope + z.v).split([z.nope, z.v], -1)
        q = torch.cat([q_nope, q_rope], -1).transpose(1, 2)
        k = torch.cat([k_nope, k_rope.unsqueeze(2).expand(-1, -1, z.H, -1)], -1).transpose(1, 2)
        scores = q @ k.mT
        out = (scores.softmax(-1) @ v.transpose(1, 2)).transpose(1, 2)
        return out

    m.forward = forward
    return m, draw(z.B, z.S, z.C).float()


@program("B T C", "H", all_weights="B H T S", joined="B T C")
def heads_one_after_another(z, draw):
    def forward(x):
        all_weights, outs = x.new_empty(z.B, z.H, z.S, z.S), []
        for h in range(z.H):
            q = x[..., h * z.D : (h + 1) * z.D]
            all_weights[:, h] = (q @ q.mT).softmax(-1)
            outs.append(q.relu())
        joined = torch.cat(outs, -1)
        return joined, all_weights

    return forward, draw(z.B, z.S, z.C)


@program(("B H T D", "B H S D"), logits="B H T S+1", weights="B H T S", out="B H T D")
def a_sink_beside_the_keys(z, draw):
    def forward(q, k):
        logits = torch.cat(
            [q @ k.mT, q.new_zeros(1, z.H, 1, 1).expand(z.B, -1, q.shape[-2], -1)], -1
        )
        weights = logits.softmax(-1)[..., :-1]
        out = weights @ k
        return out

    return forward, draw(z.B, z.H, z.S, z.D), draw(z.B, z.H, z.P, z.D)


@program("B 3 Y X", "H", patches="B Y/2*X/3 C", q="B H Y/2*X/3 D")
def patches_of_which_only_heads_are_known(z, draw):
    embed, qkv = nn.Conv2d(3, z.C, (2, 3), (2, 3)), nn.Linear(z.C, 3 * z.C)

    def forward(image):
        patches = embed(image).flatten(2).mT
        q, k, v = qkv(patches).unflatten(-1, (3, z.H, -1)).permute(2, 0, 3, 1, 4)
        return patches + (q @ k.mT @ v).transpose(1, 2).flatten(2)

    return forward, draw(z.B, 3, 14, 33).float()


@program("B T C", "C", "H", k="B ? T D", v="B ? T D", out="B T C")
def keys_of_heads_that_nobody_counted(z, draw):
    w = nn.Linear(z.C, z.C), nn.Linear(z.C, 2 * z.D), nn.Linear(z.C, 2 * z.D)

    def forward(x):
        q, k, v = (layer(x).view(*x.shape[:2], -1, z.D).transpose(1, 2) for layer in w)
        weights = (q @ k.repeat_interleave(z.H // 2, 1).mT).softmax(-1)
        out = (weights @ v.repeat_interleave(z.H // 2, 1)).transpose(1, 2).reshape(x.shape)
        return out

    return forward, draw(z.B, z.S, z.C).float()


@pytest.mark.parametrize("at", range(len(COINCIDENCES)))
@pytest.mark.parametrize("name", PROGRAMS)
def test_variables_are_named(name, at, draw):
    build, axes, sizes, expected = PROGRAMS[name]
    every = {
        "B": 2,
        "S": 5,
        "H": 4,
        "D": 6,
        "P": 11,
        "nope": 9,
        "rope": 4,
        "v": 7,
        "rank": 13,
        "Y": 6,
        "X": 15,
    }
    every |= COINCIDENCES[at]
    z = types.SimpleNamespace(**every, C=every["H"] * every["D"])
    fn, *args = build(z, draw)
    found = trace(fn, *args, axes=axes, sizes={size: getattr(z, size) for size in sizes})
    assert {variable: found.step(variable).axes for variable in expected} == expected
    assert found.warnings == found.questions == ()
