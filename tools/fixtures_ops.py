#!/usr/bin/env python3
"""Reference values from PyTorch for tests/test_parity.c: python tools/fixtures_ops.py > tests/fixtures/ops.txt

A case is a function name, whole-number arguments and inputs; the file holds the result, the gradients of s = sum(w * result) for every float input, and
for twice differentiable cases H·t of s.  w and t are the same simple sequences on both sides (weight, tangent below).  Then: the promotion table, and
parameters along 100 steps of every optimiser.
"""
import sys

import torch
import torch.nn.functional as F

from fixtures import *

# ---- elementwise: ordinary values, then the edges -------------------------------------------------------------------------------------
unary = {
    "neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "exp": torch.exp, "expm1": torch.expm1, "log": torch.log, "log1p": torch.log1p,
    "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal, "square": torch.square, "sin": torch.sin, "cos": torch.cos,
    "tanh": torch.tanh, "sigmoid": torch.sigmoid, "erf": torch.erf, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round,
    "trunc": torch.trunc, "relu": torch.relu, "silu": F.silu, "softplus": F.softplus, "log_sigmoid": F.logsigmoid, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "isnan": torch.isnan, "isfinite": torch.isfinite, "logical_not": torch.logical_not,
}
positive = {"log", "sqrt", "rsqrt"}
smooth_flat = {"sign", "floor", "ceil", "round", "trunc", "abs", "relu"}
for name, fn in unary.items():
    boolean = name in ("isnan", "isfinite", "logical_not")
    low = 0.1 if name in positive else -0.9 if name == "log1p" else -2.0
    case(name, fn, [rand(2, 5, low=low, high=3)], hvp=not boolean)
    case(name, fn, [rand(9, low=low, high=3, dtype=torch.float32)], hvp=False)
    # left out: sign(NaN) is NaN here and 0 in PyTorch; silu and gelu of infinities are the limits here, -inf · 0 = NaN in PyTorch
    special = t64(inf, -inf) if name == "sign" else t64(nan) if name in ("silu", "gelu", "gelu_tanh") else t64(nan, inf, -inf)
    edges = torch.cat([special, t64( 0.0, 30.0, -30.0, 1e-5, -1e-5, 0.5, 1.5, 2.5, -0.5, -1.5)])
    case(name, fn, [edges], grad=False)
    case(name, fn, [edges.float()], grad=False)
# derivatives at the kinks and borders
case("relu", torch.relu, [t64(-1, 0, 1)])
case("abs", torch.abs, [t64(-1, 0, 1)])
case("sign", torch.sign, [t64(-1, 0, 1)])
case("round", torch.round, [t64(0.5, 1.5, 2.5, -0.5, 3.5)], hvp=False)
# not at the borders: 1 there here and in PyTorch's documented rule, 0 in torch 2.15
case("clamp", lambda x, a, b: torch.clamp(x, a, b), [t64(-2, -1.01, 0.5, 0.99, 2, nan)], (-1, 1))
case("sqrt", torch.sqrt, [t64(0, 4)], hvp=False)
case("softplus", F.softplus, [t64(-40, -1, 0, 1, 40)])
case("log_sigmoid", F.logsigmoid, [t64(-40, -1, 0, 1, 40)])
case("gelu", F.gelu, [t64(-6, -1, 0, 1, 6)])

binary = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum,
    "fmod": torch.fmod, "remainder": torch.remainder, "atan2": torch.atan2, "pow": torch.pow, "eq": torch.eq, "ne": torch.ne, "lt": torch.lt,
    "le": torch.le, "gt": torch.gt, "ge": torch.ge, "logical_and": torch.logical_and, "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor, "floor_divide": torch.floor_divide,
}
for name, fn in binary.items():
    grad = name in ("add", "sub", "mul", "div", "maximum", "minimum", "fmod", "remainder", "atan2", "pow")
    low = 0.3 if name == "pow" else -2
    case(name, fn, [rand(3, 4, low=low), rand(4, low=low)], grad=grad)
    case(name, fn, [rand(3, 1, low=low, dtype=torch.float32), rand(1, 4, low=low, dtype=torch.float32)], grad=grad, hvp=False)
    case(name, fn, [t64(nan, 1, inf, -inf, 0, 5, -5, 5, -5), t64(1, nan, 2, 2, 3, 3, 3, -3, -3)], grad=False)
    if name not in ("pow",):
        case(name, fn, [ints(7, -7, 7, -7, 5), ints(2, 2, -2, -2, 5)], grad=False)
case("maximum", torch.maximum, [t64(1, 2, 3), t64(1, 3, 2)], hvp=False)
case("minimum", torch.minimum, [t64(1, 2, 3), t64(1, 3, 2)], hvp=False)
case("pow", torch.pow, [t64(0, 0, 2, 2, 0.5), t64(2, 1, 0, 3, -1)], hvp=False)
case("pow", torch.pow, [ints(2, -3, 5, 0), ints(3, 3, 0, 2)], grad=False)
case("pow_scalar", lambda x, s: torch.pow(x, s), [rand(5)], (3,))
case("pow_scalar", lambda x, s: torch.pow(x, s), [t64(0, 1, -2)], (2,))
case("pow_scalar", lambda x, s: torch.pow(x, s), [t64(0, 1, -2)], (0,), hvp=False)
case("add", torch.add, [ints(200, 100, dtype=torch.uint8), ints(100, 1, dtype=torch.uint8)], grad=False)
case("sub", torch.sub, [ints(1, 100, dtype=torch.uint8), ints(2, 1, dtype=torch.uint8)], grad=False)
case("mul", torch.mul, [ints(2**31 - 1, 3, dtype=torch.int32), ints(2, 5, dtype=torch.int32)], grad=False)
case("neg", torch.neg, [ints(1, 0, 255, dtype=torch.uint8)], grad=False)
case("add", torch.add, [torch.tensor([True, False, True]), torch.tensor([True, True, False])], grad=False)
case("where", torch.where, [torch.tensor([[True], [False]]), rand(2, 3), rand(3)])
case("masked_fill", lambda x, m: x.masked_fill(m, 0.5), [rand(2, 3), torch.tensor([True, False, True])])

# ---- reductions ---------------------------------------------------------------------------------------------------------------------------
KEEP = -9  # marks "all axes"


def reduced(fn_all, fn_dim):
    return lambda x, axis, keep: fn_all(x) if axis == KEEP else fn_dim(x, axis, bool(keep))


reductions = {
    "sum": reduced(torch.sum, lambda x, d, k: x.sum(d, keepdim=k)),
    "mean": reduced(torch.mean, lambda x, d, k: x.mean(d, keepdim=k)),
    "prod": reduced(torch.prod, lambda x, d, k: x.prod(d, keepdim=k)),
    "max": reduced(torch.amax, lambda x, d, k: x.amax(d, keepdim=k)),
    "min": reduced(torch.amin, lambda x, d, k: x.amin(d, keepdim=k)),
    "argmax": reduced(torch.argmax, lambda x, d, k: x.argmax(d, keepdim=k)),
    "argmin": reduced(torch.argmin, lambda x, d, k: x.argmin(d, keepdim=k)),
    "any": reduced(torch.any, lambda x, d, k: x.any(d, keepdim=k)),
    "all": reduced(torch.all, lambda x, d, k: x.all(d, keepdim=k)),
    "var": reduced(torch.var, lambda x, d, k: x.var(d, keepdim=k)),
    "logsumexp": reduced(lambda x: torch.logsumexp(x, tuple(range(x.dim()))), lambda x, d, k: x.logsumexp(d, keepdim=k)),
}
for name, fn in reductions.items():
    grad = name not in ("argmax", "argmin", "any", "all")
    for axis, keep in ((KEEP, 0), (0, 0), (-1, 1), (1, 0)):
        case(name, fn, [rand(3, 4, 2)], (axis, keep), grad=grad)
    case(name, fn, [rand(40, dtype=torch.float32)], (KEEP, 0), grad=grad, hvp=False)
    if name in ("max", "min", "argmax", "argmin", "any", "all", "sum", "prod"):
        case(name, fn, [torch.tensor([[1.0, nan, 3.0], [2.0, 2.0, 1.0], [nan, nan, 0.0]], dtype=torch.float64)], (1, 0), grad=False)
        case(name, fn, [torch.tensor([[1, 5, 5], [0, 0, -1], [2, 2, 2]])], (1, 0), grad=False)
    if name in ("max", "min"):
        case(name, fn, [torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], dtype=torch.float64)], (1, 0), hvp=False)
        case(name, fn, [torch.tensor([[1.0, 3.0], [3.0, 2.0]], dtype=torch.float64)], (KEEP, 0), hvp=False)
case("prod", reductions["prod"], [torch.tensor([[2.0, 0.0, 3.0], [0.0, 0.0, 3.0], [2.0, 4.0, 3.0]], dtype=torch.float64)], (1, 0), hvp=False)
case("sum", reductions["sum"], [torch.tensor([[True, False], [True, True]])], (0, 0), grad=False)
case("sum", reductions["sum"], [ints(200, 100, dtype=torch.uint8)], (KEEP, 0), grad=False)
case("sum", reductions["sum"], [torch.zeros(0, 3, dtype=torch.float64)], (0, 0))
case("prod", reductions["prod"], [torch.zeros(0, 3, dtype=torch.float64)], (0, 0), hvp=False)
case("logsumexp", reductions["logsumexp"], [torch.tensor([[-inf, -inf], [0.0, -inf], [1000.0, 1000.0]], dtype=torch.float64)], (1, 0), grad=False)

# ---- shapes: slicing as Python and NumPy slice (PyTorch has no negative steps) -----------------------------------------------------------------
END = 2**63 - 1


def sliced(x, start, stop, step):
    a = x.detach().numpy()
    return torch.from_numpy(a[slice(start, None if stop == END else stop, step)].copy())


for start, stop, step in ((0, END, 1), (2, 7, 1), (1, END, 3), (-3, END, 1), (-3, -1, 1), (0, 100, 2), (5, 2, 1), (-100, 3, 1), (-1, END, -1), (7, 1, -2),
                          (-2, -8, -3), (100, END, -4), (3, 3, 1), (10, END, 1), (0, -20, -1)):
    case("slice", sliced, [torch.arange(10, dtype=torch.float64)], (start, stop, step), grad=False)
case("unfold", lambda x, a, b: x.unfold(0, a, b), [rand(7, 2)], (3, 2))
case("diagonal", lambda x, k: torch.diagonal(x, k, 0, 1), [rand(4, 5)], (1,))
case("diagonal", lambda x, k: torch.diagonal(x, k, 0, 1), [rand(3, 4, 2)], (-1,))
case("tril", lambda x, k: torch.tril(x, k), [rand(3, 4)], (-1,))
case("triu", lambda x, k: torch.triu(x, k), [rand(2, 3, 4)], (1,))
case("cat", lambda a, b: torch.cat([a, b], 1), [rand(2, 3), rand(2, 1)])
case("stack", lambda a, b: torch.stack([a, b], 1), [rand(2, 3), rand(2, 3)])
case("transpose", lambda x: x.transpose(0, 2) * 2, [rand(2, 3, 4)])
case("to_i64", lambda x: x.to(torch.int64), [t64(1.9, -1.9, 0.5, -0.5, 1e6)], grad=False)
case("to_bool", lambda x: x.to(torch.bool), [t64(1.9, 0, nan, -0.0)], grad=False)
case("to_bf16", lambda x: x.to(torch.bfloat16), [rand(20, dtype=torch.float32, low=-100, high=100)], grad=False)
case("to_f16", lambda x: x.to(torch.float16), [torch.cat([rand(20, dtype=torch.float32, low=-100, high=100), torch.tensor([1e-7, 6e-8, 65504.0, 65520.0, 1e-5])])], grad=False)

# ---- indexing --------------------------------------------------------------------------------------------------------------------------------------
case("index_select", lambda x, i, d: torch.index_select(x, d, i), [rand(5, 3), ints(0, 4, 4, 1)], (0,))
case("index_select", lambda x, i, d: torch.index_select(x, d, i), [rand(2, 5), ints(3, 3, 0)], (1,))
case("index_add", lambda x, i, s, d: torch.index_add(x, d, i, s), [rand(4, 3), ints(1, 1, 3), rand(3, 3)], (0,))
case("gather", lambda x, i, d: torch.gather(x, d, i), [rand(3, 4), torch.tensor([[0, 0], [3, 1], [2, 2]])], (1,))
case("scatter_add", lambda x, i, s, d: torch.scatter_add(x, d, i, s), [rand(3, 4), torch.tensor([[0, 0], [3, 1], [2, 2]]), rand(3, 2)], (1,))
case("embedding", lambda w, i: F.embedding(i, w), [rand(6, 3), torch.tensor([[0, 5, 5], [2, 0, 0]])])
case("one_hot", lambda i, n: F.one_hot(i, n), [torch.tensor([[0, 2], [1, 1]])], (4,), grad=False)
case("nonzero", torch.nonzero, [torch.tensor([[0.0, 1.0, nan], [2.0, 0.0, 0.0]], dtype=torch.float64)], grad=False)

# ---- products ----------------------------------------------------------------------------------------------------------------------------------------
for a, b in (((3, 4), (4, 2)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (2, 4, 2)), ((2, 1, 3, 2), (3, 2, 2)), ((2, 3, 4), (4, 2)), ((3, 0), (0, 2))):
    case("matmul", torch.matmul, [rand(*a), rand(*b)])
case("matmul", torch.matmul, [rand(9, 33, dtype=torch.float32), rand(33, 7, dtype=torch.float32)], hvp=False)
case("outer", torch.outer, [rand(3), rand(4)])
case("linear", F.linear, [rand(3, 4), rand(2, 4), rand(2)])
case("linear", F.linear, [rand(2, 3, 4), rand(5, 4)])



def attention(q, k, v, causal):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the fused ones have no second derivative
        return F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal))


# ---- normalisation, losses -------------------------------------------------------------------------------------------------------------------------------
for axis in (0, -1):
    case("softmax", lambda x, d: F.softmax(x, d), [rand(3, 5)], (axis,))
    case("log_softmax", lambda x, d: F.log_softmax(x, d), [rand(3, 5)], (axis,))
case("softmax", lambda x, d: F.softmax(x, d), [torch.tensor([[1e4, 0.0, -1e4], [0.0, -inf, 0.0]], dtype=torch.float64)], (-1,), hvp=False)
case("layer_norm", lambda x, w, b: F.layer_norm(x, (5,), w, b), [rand(3, 5), rand(5), rand(5)])
case("layer_norm", lambda x: F.layer_norm(x, (7,)), [rand(2, 2, 7)])
case("layer_norm", lambda x, w, b: F.layer_norm(x, (33,), w, b), [rand(4, 33, dtype=torch.float32) + 8, rand(33, dtype=torch.float32), rand(33, dtype=torch.float32)], hvp=False)
case("attention", attention, [rand(2, 3, 4), rand(2, 3, 4), rand(2, 3, 4)], (1,))
case("attention", attention, [rand(3, 4), rand(5, 4), rand(5, 4)], (0,))
RED = ["mean", "sum", "none"]
# arguments: reduction, label smoothing in percent, ignore_index (0: the usual -100)
for r, smooth, ignore in ((0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 10, 0), (2, 30, 0), (0, 0, 2), (0, 20, 2), (2, 20, 2), (1, 0, -100)):
    target = ints(1, 2, 4, 2, 0) if ignore != -100 else ints(1, -100, 4, -100, 0)
    case("cross_entropy", lambda x, t, r, s, i: F.cross_entropy(x, t, reduction=RED[r], label_smoothing=s / 100, ignore_index=i or -100),
         [rand(5, 6), target], (r, smooth, ignore))
case("cross_entropy", lambda x, t, r, s, i: F.cross_entropy(x, t, reduction=RED[r]), [rand(5, 6, dtype=torch.float32) * 20, ints(1, 2, 4, 2, 0)], (0, 0, 0), hvp=False)
for r in (0, 1, 2):
    case("mse_loss", lambda x, t, r: F.mse_loss(x, t, reduction=RED[r]), [rand(2, 3), rand(2, 3)], (r,))
    case("l1_loss", lambda x, t, r: F.l1_loss(x, t, reduction=RED[r]), [rand(2, 3), rand(2, 3)], (r,))
    case("bce_with_logits", lambda x, t, r: F.binary_cross_entropy_with_logits(x, t, reduction=RED[r]), [rand(2, 3), rand(2, 3, low=0, high=1)], (r,))
    # our target has a gradient too; PyTorch's bce has none there, so the target is given as a constant of the other kind
    case("bce_loss", lambda x, t, r: F.binary_cross_entropy(x, t.to(torch.float64), reduction=RED[r]), [rand(2, 3, low=0.1, high=0.9), torch.tensor([[True, False, True], [False, False, True]])], (r,))
    case("nll_loss", lambda x, t, r: F.nll_loss(x, t, reduction=RED[r]), [rand(3, 4), ints(1, 0, 3)], (r,))
case("bce_with_logits", lambda x, t, r: F.binary_cross_entropy_with_logits(x, t, reduction=RED[r]), [t64(0, 40, -40, 800, -800), t64(0, 1, 1, 0, 0)], (2,), hvp=False)
case("bce_loss", lambda x, t, r: F.binary_cross_entropy(x, t.to(torch.float64), reduction=RED[r]), [t64(0, 1, 0, 1), torch.tensor([True, True, False, False])], (2,), grad=False)

# ---- promotion: every pair of dtypes, as tensors and 0-d tensors; Python scalars --------------------------------------------------------------------------------
for a in DTYPES:
    for b in DTYPES:
        for da, db in ((1, 1), (1, 0), (0, 1), (0, 0)):
            x = torch.ones((2,) * da, dtype=DTYPES[a])
            y = torch.ones((2,) * db, dtype=DTYPES[b])
            print("promote", a, da, b, db, NAMES[torch.result_type(x, y)], NAMES[torch.div(x, y).dtype])
    print("scalar", a, NAMES[(torch.ones(2, dtype=DTYPES[a]) * 2).dtype], NAMES[(torch.ones(2, dtype=DTYPES[a]) * 0.5).dtype])

# ---- optimisers: 100 steps of a small regression; parameters at some of them -----------------------------------------------------------------------------------------
x = rand(6, 3)
y = rand(6, 2)
w0, b0 = rand(2, 3), rand(2)
for word, t in (("problem", x), ("problem", y), ("problem", w0), ("problem", b0)):
    emit(word, t)
runs = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "dampening": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.5, weight_decay=0.01),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.05),
    "adam_decay": lambda p: torch.optim.Adam(p, lr=0.05, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1),
    "clipped": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
}
for dtype in (torch.float64, torch.float32):
    for name, make in runs.items():
        w = w0.to(dtype).clone().requires_grad_(True)
        b = b0.to(dtype).clone().requires_grad_(True)
        opt = make([w, b])
        print("optimiser", name, NAMES[dtype])
        for step in range(1, 101):
            opt.zero_grad()
            loss = F.mse_loss(F.linear(x.to(dtype), w, b), y.to(dtype))
            loss.backward()
            if name == "clipped":
                torch.nn.utils.clip_grad_norm_([w, b], 0.2)
            opt.step()
            if step in (1, 2, 10, 50, 100):
                emit("step %d" % step, torch.cat([w.reshape(-1), b]))
print("made with torch", torch.__version__, "numpy", np.__version__, file=sys.stderr)
