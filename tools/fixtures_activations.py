#!/usr/bin/env python3
"""Reference values from PyTorch for the activations: python tools/fixtures_activations.py > tests/fixtures/activations.txt

Arguments are whole numbers: parameters in hundredths.  Left out: infinities where PyTorch has inf·0, hardswish at its corners (PyTorch changed its mind).
The hardsigmoid is written out: PyTorch's own has 1/6 in f32 in its derivative, and no second one.
"""
import torch
import torch.nn.functional as F

from fixtures import *

corners = t64(-3.5, -1, -0.5, 0, 0.5, 1, 3.5)
far = t64(-1e4, -100, 100, 1e4)

plain = {
    "relu6": F.relu6, "selu": F.selu, "hardsigmoid": lambda x: F.relu6(x + 3) / 6, "mish": F.mish, "softsign": F.softsign, "tanhshrink": F.tanhshrink,
}
for name, fn in plain.items():
    case(name, fn, [rand(2, 5, low=-4, high=8)])
    case(name, fn, [rand(9, low=-4, high=8, dtype=torch.float32)], hvp=False)
    case(name, fn, [corners], hvp=False)
    case(name, fn, [far], hvp=False)
case("hardswish", F.hardswish, [rand(2, 5, low=-4, high=4)])
case("hardswish", F.hardswish, [far], hvp=False)

given = {
    "leaky_relu": (lambda x, a: F.leaky_relu(x, a / 100), (1, 25, -50)),
    "elu": (lambda x, a: F.elu(x, a / 100), (100, 30)),
    "celu": (lambda x, a: F.celu(x, a / 100), (100, 250)),
    "softshrink": (lambda x, a: F.softshrink(x, a / 100), (50, 100)),
    "hardshrink": (lambda x, a: F.hardshrink(x, a / 100), (50, 100)),
}
for name, (fn, values) in given.items():
    for a in values:
        case(name, fn, [rand(2, 5)], (a,))
        case(name, fn, [rand(7, dtype=torch.float32)], (a,), hvp=False)
        case(name, fn, [corners], (a,), hvp=False)
        case(name, fn, [far], (a,), hvp=False)
for low, high in ((-100, 100), (-50, 225)):
    case("hardtanh", lambda x, a, b: F.hardtanh(x, a / 100, b / 100), [torch.cat([rand(9), corners])], (low, high), hvp=False)
for t, v in ((0, 0), (50, -2000)):
    case("threshold", lambda x, a, b: F.threshold(x, a / 100, b / 100), [torch.cat([rand(9), corners])], (t, v), hvp=False)
for beta, limit in ((100, 2000), (250, 2000), (1000, 500)):
    case("softplus_beta", lambda x, b, t: F.softplus(x, b / 100, t / 100), [torch.cat([rand(9), far])], (beta, limit))
for v in (0, 50, 100):
    case("heaviside", lambda x, v: torch.heaviside(x, torch.tensor(v / 100, dtype=x.dtype)), [corners], (v,), grad=False)
case("prelu", F.prelu, [rand(2, 3, 4), rand(3)])
case("prelu", F.prelu, [rand(4, 5), rand(1)])
case("prelu", F.prelu, [t64(-1, 0, 2), t64(0.25)], hvp=False)
case("logit", lambda x, e: torch.logit(x, e / 100 if e else None), [rand(9, low=0.1, high=0.9)], (0,))
case("logit", lambda x, e: torch.logit(x, e / 100 if e else None), [t64(0, 0.1, 0.5, 0.99, 1)], (5,), hvp=False)
for axis in (0, 1, -1):
    case("glu", lambda x, d: F.glu(x, d), [rand(2, 4, 6)], (axis,))
    case("softmin", lambda x, d: F.softmin(x, d), [rand(2, 3, 4)], (axis,))


def halves(f):
    def gated(x, axis):
        a, b = x.chunk(2, axis)
        return f(a) * b
    return gated


for name, f in (("reglu", F.relu), ("geglu", F.gelu), ("swiglu", F.silu)):
    case(name, halves(f), [rand(3, 6)], (-1,))
    case(name, halves(f), [rand(4, 3)], (0,))
for axis, t in ((-1, 50), (0, 200)):
    case("softmax_temperature", lambda x, d, t: F.softmax(x / (t / 100), d), [rand(3, 4)], (axis, t))
case("softmax_temperature", lambda x, d, t: F.softmax(x / (t / 100), d), [torch.stack([far, -far])], (-1, 100), hvp=False)
case("maxout", lambda x, d, k: x.unflatten(d, (-1, k)).amax(d + 1 if d >= 0 else -1), [rand(4, 6)], (1, 3))
case("maxout", lambda x, d, k: x.unflatten(d, (-1, k)).amax(d + 1), [rand(4, 3)], (0, 2))
