"""Shared by the fixtures_*.py that ask PyTorch for reference values (tests/parity.h reads them): cases with results, gradients and Hessian-vector products."""
import math

import numpy as np
import torch
import torch.nn.functional as F

torch.set_num_threads(1)
DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64, "i32": torch.int32,
          "u8": torch.uint8, "bool": torch.bool}
NAMES = {v: k for k, v in DTYPES.items()}


def weight(n):
    return [((i * 7) % 11 - 5) / 8 for i in range(n)]


def tangent(n):
    return [((i * 5) % 7 - 3) / 4 for i in range(n)]


def number(v, dtype):
    if dtype in ("i64", "i32", "u8", "bool"):
        return str(int(v))
    if v != v:
        return "nan"
    if math.isinf(v):
        return "inf" if v > 0 else "-inf"
    return "%.9g" % v if dtype == "f32" else "%.17g" % v


def emit(word, t):
    name = NAMES[t.dtype]
    shape = ",".join(str(s) for s in t.shape) or "-"
    if t._is_zerotensor():
        t = torch.zeros(t.shape, dtype=t.dtype)
    values = t.detach().reshape(-1).to(torch.float64 if t.dtype.is_floating_point else torch.int64).tolist()
    print(word, name, shape, *(number(v, name) for v in values))


def case(name, fn, inputs, args=(), grad=True, hvp=True):
    """fn(*inputs, *args) in torch; `name args` in C."""
    print("case", name, *args)
    leaves = []
    xs = []
    for x in inputs:
        emit("in", x)
        x = x.clone()
        if grad and x.dtype.is_floating_point:
            x.requires_grad_(True)
            leaves.append(x)
        xs.append(x)
    y = fn(*xs, *args)
    emit("out", y)
    if grad and leaves and y.dtype.is_floating_point and y.requires_grad:
        w = torch.tensor(weight(y.numel()), dtype=y.dtype).reshape(y.shape)
        s = (y * w).sum()
        g = torch.autograd.grad(s, leaves, create_graph=hvp, allow_unused=True)
        g = [torch.zeros_like(x) if k is None else k for k, x in zip(g, leaves)]
        for k in g:
            emit("grad", k)
        if hvp:
            d = sum((k * torch.tensor(tangent(k.numel()), dtype=k.dtype).reshape(k.shape)).sum() for k in g)
            h = torch.autograd.grad(d, leaves, allow_unused=True) if d.requires_grad else [None] * len(leaves)
            for k, x in zip(h, leaves):
                emit("hvp", torch.zeros_like(x) if k is None else k)
    print("end")


generator = torch.Generator().manual_seed(20)


def rand(*shape, dtype=torch.float64, low=-2.0, high=2.0):
    return (torch.rand(*shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(dtype)


def t64(*v):
    return torch.tensor(v, dtype=torch.float64)


def ints(*v, dtype=torch.int64):
    return torch.tensor(v, dtype=dtype)


nan, inf = float("nan"), float("inf")
