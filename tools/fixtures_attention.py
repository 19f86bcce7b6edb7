#!/usr/bin/env python3
"""Reference values from PyTorch for attention: python tools/fixtures_attention.py > tests/fixtures/attention.txt

Arguments are whole numbers: causal, the scale in hundredths (0: the default).  Causal here counts from the last key, in PyTorch from the first, so that causal cases have as
many queries as keys.
"""
import torch
import torch.nn.functional as F

from fixtures import *


def attention(q, k, v, causal, scale, mask=None):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the fused ones have no second derivative
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=bool(causal), scale=scale / 100 if scale else None,
                                              enable_gqa=q.dim() > 2 and q.shape[-3] != k.shape[-3])


def masked(q, k, v, mask, causal, scale):
    return attention(q, k, v, causal, scale, mask)


f32 = torch.float32
for causal in (0, 1):
    for scale in (0, 150):
        case("attention", attention, [rand(2, 4, 3), rand(2, 4, 3), rand(2, 4, 3)], (causal, scale))
case("attention", attention, [rand(3, 5), rand(6, 5), rand(6, 2)], (0, 0))
case("attention", attention, [rand(2, 1, 7), rand(2, 5, 7), rand(2, 5, 7)], (0, 0))
case("attention", attention, [rand(2, 4, 3, 2), rand(2, 2, 3, 2), rand(2, 2, 3, 2)], (1, 0))
case("attention", attention, [rand(1, 6, 5, 1), rand(1, 1, 5, 1), rand(1, 1, 5, 3)], (0, 0))
case("masked", masked, [rand(2, 3, 4), rand(2, 5, 4), rand(2, 5, 4), rand(3, 5)], (0, 0))
case("masked", masked, [rand(2, 2, 3, 4), rand(2, 2, 5, 4), rand(2, 2, 5, 4), rand(2, 1, 1, 5)], (0, 50))
some = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 1, 0], [1, 1, 1, 1, 1]]).bool()
case("masked", masked, [rand(2, 3, 4), rand(2, 5, 4), rand(2, 5, 4), some], (0, 0))
none = some.clone()
none[1] = False  # a query that sees nothing
case("masked", masked, [rand(2, 3, 4), rand(2, 5, 4), rand(2, 5, 4), none], (0, 0), hvp=False)
case("attention", attention, [rand(1, 4, 17, dtype=f32), rand(1, 4, 17, dtype=f32), rand(1, 4, 17, dtype=f32)], (1, 0), hvp=False)
case("attention", attention, [rand(2, 5, 8, dtype=f32), rand(2, 7, 8, dtype=f32), rand(2, 7, 8, dtype=f32)], (0, 0), hvp=False)
case("masked", masked, [rand(2, 3, 4, dtype=f32), rand(2, 5, 4, dtype=f32), rand(2, 5, 4, dtype=f32), none], (0, 0), hvp=False)
