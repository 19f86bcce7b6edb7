#!/usr/bin/env python3
"""Reference values from PyTorch for ordering, scans, segments and bags: python tools/fixtures_order.py > tests/fixtures/order.txt

Arguments are whole numbers: the axis, then flags and counts.  Where PyTorch leaves the place of ties open (topk, kthvalue), values are distinct.
"""
import torch
import torch.nn.functional as F

from fixtures import *

HOW = ["sum", "prod", "mean", "amax", "amin"]
ties = torch.tensor([[3.0, 1.0, 3.0, nan, 1.0, -inf, inf], [0.0, 0.0, nan, 2.0, nan, 2.0, -1.0]], dtype=torch.float64)
whole = torch.tensor([[3, 1, 3, 2, 1], [0, -4, 7, 7, 0]])

for axis in (0, 1):
    for down in (0, 1):
        case("sort", lambda x, a, d: torch.sort(x, dim=a, descending=bool(d), stable=True)[0], [rand(4, 5)], (axis, down))
        case("argsort", lambda x, a, d: torch.sort(x, dim=a, descending=bool(d), stable=True)[1], [rand(4, 5)], (axis, down))
        for x in (ties, whole, whole.to(torch.int32), whole.abs().to(torch.uint8), whole > 2, ties.to(torch.bfloat16), ties.to(torch.float16)):
            case("sort", lambda x, a, d: torch.sort(x, dim=a, descending=bool(d), stable=True)[0], [x], (axis, down), grad=False)
            case("argsort", lambda x, a, d: torch.sort(x, dim=a, descending=bool(d), stable=True)[1], [x], (axis, down), grad=False)
        for k in (0, 1, 3):
            case("topk", lambda x, a, s, k: torch.topk(x, k, a, largest=not s)[0], [rand(4, 5)], (axis, down, k))
            case("topk_places", lambda x, a, s, k: torch.topk(x, k, a, largest=not s)[1], [rand(4, 5)], (axis, down, k))
    for k in (1, 2, 4):
        case("kthvalue", lambda x, a, k: torch.kthvalue(x, k, a)[0], [rand(4, 5)], (axis, k))
    case("median", lambda x, a: torch.median(x, a)[0], [rand(4, 5)], (axis,))
    case("median", lambda x, a: torch.median(x, a)[0], [ties], (axis,), grad=False)
    case("cumsum", lambda x, a: torch.cumsum(x, a), [rand(4, 5)], (axis,))
    case("cumprod", lambda x, a: torch.cumprod(x, a), [rand(4, 5)], (axis,))
    case("cumprod", lambda x, a: torch.cumprod(x, a), [torch.tensor([[2.0, 0, 3, 1], [0, 0, 2, -1], [1, 2, 3, 0]], dtype=torch.float64)], (axis,))
    case("logcumsumexp", lambda x, a: torch.logcumsumexp(x, a), [rand(4, 5)], (axis,))
    for x in (whole, whole > 2, whole.to(torch.int32)):
        case("cumsum", lambda x, a: torch.cumsum(x, a), [x], (axis,))
        case("cumprod", lambda x, a: torch.cumprod(x, a), [x], (axis,))
    for name, fn in (("cummax", torch.cummax), ("cummin", torch.cummin)):
        case(name, lambda x, a: fn(x, a)[0], [rand(4, 5)], (axis,))
        case(name + "_places", lambda x, a: fn(x, a)[1], [ties], (axis,), grad=False)
        case(name + "_places", lambda x, a: fn(x, a)[1], [whole], (axis,))
    index = torch.tensor([[0, 2, 2], [1, 0, 1], [2, 2, 0], [1, 1, 2]])
    for how in range(5):
        for without in (0, 1):
            if axis == 1: index = index[:3]
            reduce = lambda x, s, i, a, h, w: x.scatter_reduce(a, i, s, HOW[h], include_self=not w)
            case("scatter_reduce", reduce, [rand(3, 3), rand(*index.shape), index], (axis, how, without), hvp=how not in (3, 4))
            case("scatter_reduce", reduce, [torch.randint(-5, 6, (3, 3), generator=generator), torch.randint(-5, 6, index.shape, generator=generator), index],
                 (axis, how, without))
    # three equal ones share
    case("scatter_reduce", lambda x, s, i, a, h, w: x.scatter_reduce(a, i, s, HOW[h]), [torch.zeros(3, 3, dtype=torch.float64),
         torch.zeros(index.shape, dtype=torch.float64), index], (axis, 3, 0), hvp=False)

for x in (ties, whole, ties.to(torch.float32)):
    for part in range(3):
        case("unique", lambda x, p: torch.unique(x, return_inverse=True, return_counts=True)[p], [x], (part,), grad=False)
for right in (0, 1):
    case("searchsorted", lambda s, v, r: torch.searchsorted(s, v, right=bool(r)), [t64(1, 3, 3, 5), t64(0, 3, 4, 9, nan, -inf, inf)], (right,), grad=False)
    case("searchsorted", lambda s, v, r: torch.searchsorted(s, v, right=bool(r)), [torch.sort(whole)[0], whole], (right,))

indices = ints(2, 0, 4, 4, 1, 2, 3)
for mode, name in ((0, "sum"), (2, "mean"), (3, "max")):
    bag = lambda w, i, o, m: F.embedding_bag(i, w, o, mode=name)
    # PyTorch has no second derivative of bags: first order only
    case("embedding_bag", bag, [rand(5, 3), indices, ints(0, 2, 2, 5)], (mode,), hvp=False)
    case("embedding_bag", bag, [rand(5, 3, dtype=torch.float32), indices, ints(0, 7)], (mode,), hvp=False)
case("embedding_bag_weighted", lambda w, i, o, f: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=f), [rand(5, 3), indices, ints(0, 2, 2, 5), rand(7)],
     hvp=False)
case("embedding_padded", lambda w, i, p: F.embedding(i, w, padding_idx=p), [rand(5, 3), torch.tensor([[1, 4], [4, 0]])], (4,))
case("bincount", lambda x, m: torch.bincount(x, minlength=m), [ints(1, 4, 1, 0, 1)], (0,))
case("bincount", lambda x, m: torch.bincount(x, minlength=m), [ints(1, 4, 1, 0, 1)], (8,))
case("histogram", lambda x, b: torch.histogram(x, b, range=(-1.0, 1.0))[0].to(torch.int64), [rand(40)], (7,), grad=False)
case("histogram_edges", lambda x, b: torch.histogram(x, b, range=(-1.0, 1.0))[1], [rand(3)], (7,), grad=False)
mask = torch.tensor([[True, False, True], [False, True, True]])
case("masked_select", lambda x, m: torch.masked_select(x, m), [rand(2, 3), mask])
case("masked_softmax", lambda x, m, a: torch.softmax(x.masked_fill(~m, -inf), a), [rand(2, 3), mask], (1,))
case("segment_sum", lambda x, i: torch.zeros(4, 2, dtype=x.dtype).index_add(0, i, x), [rand(5, 2), ints(3, 0, 3, 1, 0)])
