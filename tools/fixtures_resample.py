#!/usr/bin/env python3
"""Reference values from PyTorch for resampling: python tools/fixtures_resample.py > tests/fixtures/resample.txt

Arguments are whole numbers: mode (1 nearest, 2 linear, 3 cubic, 4 nearest exact), aligned corners, then sizes, or scales in hundredths.
Known differences: PyTorch computes nearest neighbours with a scale rounded to f32, here the quotient is exact; sizes at which the two differ are not used.
"""
import torch
import torch.nn.functional as F

from fixtures import *

MODES = {1: ("nearest",) * 3, 2: ("linear", "bilinear", "trilinear"), 3: (None, "bicubic", None), 4: ("nearest-exact",) * 3}


def resize(x, mode, align, *size, scale=None):
    corners = bool(align) if mode in (2, 3) else None
    return F.interpolate(x, size=size or None, scale_factor=scale, mode=MODES[mode][x.dim() - 3], align_corners=corners)


for mode in (1, 2, 3, 4):
    for align in (0, 1) if mode in (2, 3) else (0,):
        if mode != 3:
            for n in (3, 5, 11):
                case("interpolate_1d", lambda x, m, a, n: resize(x, m, a, n), [rand(1, 2, 5)], (mode, align, n), hvp=False)
            case("interpolate_3d", lambda x, m, a: resize(x, m, a, 3, 2, 5), [rand(1, 1, 2, 3, 4)], (mode, align), hvp=False)
        for h, w in ((6, 8), (2, 9), (1, 1), (4, 3)):
            case("interpolate_2d", lambda x, m, a, h, w: resize(x, m, a, h, w), [rand(1, 1, 3, 4)], (mode, align, h, w), hvp=False)
        for s in (150, 333):
            case("interpolate_scale", lambda x, m, a, s: resize(x, m, a, scale=s / 100), [rand(1, 1, 4, 5)], (mode, align, s), hvp=False)
case("interpolate_2d", lambda x, m, a, h, w: resize(x, m, a, h, w), [rand(2, 2, 3, 4, dtype=torch.float32)], (2, 0, 6, 8), hvp=False)
case("interpolate_2d", lambda x, m, a, h, w: resize(x, m, a, h, w), [rand(1, 2, 8, 7, dtype=torch.float32)], (3, 0, 3, 17), hvp=False)
case("pixel_shuffle", F.pixel_shuffle, [rand(2, 8, 2, 3)], (2,))
case("pixel_unshuffle", F.pixel_unshuffle, [rand(2, 2, 4, 6)], (2,))

PADDING = {0: "zeros", 3: "border", 1: "reflection"}
SAMPLING = {1: "nearest", 2: "bilinear", 3: "bicubic"}


def sample(x, grid, mode, padding, align):
    return F.grid_sample(x, grid, mode=SAMPLING[mode], padding_mode=PADDING[padding], align_corners=bool(align))


for mode in (1, 2, 3):
    for padding in PADDING:
        for align in (0, 1):
            case("grid_sample", sample, [rand(1, 2, 3, 4), rand(1, 3, 2, 2, low=-1.8, high=1.8)], (mode, padding, align), hvp=mode == 2)
            if mode != 3:
                case("grid_sample", sample, [rand(1, 2, 3, 2, 4), rand(1, 2, 2, 2, 3, low=-1.8, high=1.8)], (mode, padding, align), hvp=False)
for align in (0, 1):
    case("affine_grid", lambda t, a: F.affine_grid(t, (2, 1, 3, 4), align_corners=bool(a)), [rand(2, 2, 3)], (align,))
    case("affine_grid_3d", lambda t, a: F.affine_grid(t, (1, 1, 2, 3, 2), align_corners=bool(a)), [rand(1, 3, 4)], (align,))
