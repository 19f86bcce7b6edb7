#!/usr/bin/env python3
"""Writes tests/fixtures/print.txt: tensors and the text that PyTorch prints for them.

    tools/fixtures_print.py                   the committed cases
    tools/fixtures_print.py FILE N [SEED]     N random cases, for a long comparison: CAJAL_PRINT_CASES=FILE build/tests/test_format

A case is a line `dtype shape values`, a line with the length of the text in bytes, the text and a newline.  The shape is sizes joined by commas, or `-`
for a 0-d tensor.  Values are `hex:` and the bytes of the elements, or `seq:start:step` for start + step * i, computed in double.
"""
import random
import sys

import torch

DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16,
          "i64": torch.int64, "i32": torch.int32, "u8": torch.uint8, "bool": torch.bool}


def raw(t):
    if t.numel() == 0:
        return "hex:"
    return "hex:" + t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes().hex()


def case(out, t, values=None):
    name = next(k for k, v in DTYPES.items() if v == t.dtype)
    text = str(t).encode()
    shape = ",".join(map(str, t.shape)) or "-"
    out.write(f"{name} {shape} {values or raw(t)}\n{len(text)}\n".encode() + text + b"\n")


def sequence(out, name, shape, start, step):
    n = 1
    for d in shape:
        n *= d
    t = (start + step * torch.arange(n, dtype=torch.float64)).to(DTYPES[name]).reshape(shape)
    case(out, t, f"seq:{start!r}:{step!r}")


def fixed(out):
    nan, inf = float("nan"), float("inf")
    case(out, torch.tensor([0.3342, 0.8208, 0.3765, 0.1820]))  # the example of the course
    torch.manual_seed(0)
    case(out, torch.rand(5, 10))
    for values in ([1., 2., 3.], [0., 0.], [1e-5, 1.], [1e9, 1.], [0.1, 100.], [nan, 1., inf], [nan, 0.5, -inf], [nan, inf], [-0.0, 0.0], [-0.0, 1.5],
                   [1e8, 1.], [1e8 + 8, 1e8], [0.0001, 0.1], [0.00009999, 0.05], [999.5, 1.], [1000.5, 1.], [2.5, -1e-3], [5e-324, 0.]):
        for name in ("f32", "f64"):
            case(out, torch.tensor(values, dtype=DTYPES[name]))
    for v in (3., 0., -1.5, 1e-7, 12345678., 123456789., nan, -inf):
        case(out, torch.tensor(v))
    for name, dtype in DTYPES.items():
        case(out, torch.tensor([], dtype=dtype))
        case(out, torch.zeros(0, 3, dtype=dtype))
        case(out, torch.zeros(2, 0, 3, dtype=dtype))
        case(out, torch.tensor(1, dtype=dtype))
        case(out, torch.tensor([[1, 0, 1], [0, 1, 1]], dtype=dtype))
        case(out, torch.tensor([1, 0] * 20).to(dtype))
        sequence(out, name, (1001,), 0.0, 0.25)
        sequence(out, name, (7, 3, 50), 0.0, 1.0)
        sequence(out, name, (30, 40), -5.0, 0.125)
    sequence(out, "f64", (2, 2, 2, 2, 2), -1.0, 0.1)
    sequence(out, "f32", (1, 1, 1, 1, 1, 1, 1, 2), 1.0, 1e-3)
    sequence(out, "f64", (3, 17), 0.001, 0.37)
    sequence(out, "i64", (10, 10), -50.0, 12345.0)
    case(out, torch.tensor([2**63 - 1, -2**63]))
    case(out, torch.rand(8, 9, dtype=torch.float64))
    case(out, torch.randn(2, 3, 4))


def some(rng):
    name = rng.choice(list(DTYPES))
    shape = [rng.choice((1, 1, 2, 3, 5, 7, 8, 12, 30)) for _ in range(rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 8)))]
    while torch.Size(shape).numel() > 4000:
        shape[rng.randrange(len(shape))] = 1
    if shape and rng.random() < 0.03:
        shape[rng.randrange(len(shape))] = 0
    if name == "bool":
        t = torch.rand(shape) < 0.5
    elif name in ("i64", "i32", "u8"):
        top = 10 ** rng.randint(0, {"i64": 18, "i32": 9, "u8": 2}[name])
        t = torch.randint(0 if name == "u8" else -top, top + 1, shape, dtype=DTYPES[name])
    else:
        t = torch.randn(shape, dtype=torch.float64) * 10.0 ** rng.randint(-8, 9)
        kind = rng.randrange(6)
        if kind == 0:
            t = t.round()
        if kind == 1:
            t = torch.exp(t.clamp(-20, 20))
        if kind == 2:
            t = torch.rand(shape, dtype=torch.float64)
        if kind == 3:
            t = torch.rand(shape, dtype=torch.float64) * 10.0 ** torch.randint(-3, 3, shape)
        if rng.random() < 0.3:
            t = torch.where(torch.rand(shape) < 0.2, torch.tensor(rng.choice((0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1.0)), dtype=t.dtype), t)
        t = t.to(DTYPES[name])
    return t


def main():
    if len(sys.argv) == 1:
        with open("tests/fixtures/print.txt", "wb") as out:
            fixed(out)
        return
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    torch.manual_seed(rng.randrange(2**31))
    with open(sys.argv[1], "wb") as out:
        for _ in range(int(sys.argv[2])):
            case(out, some(rng))


main()
