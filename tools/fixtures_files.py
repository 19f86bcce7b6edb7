#!/usr/bin/env python3
"""Writes the files in tests/fixtures/ that NumPy and the safetensors package made.

Element i, counted in row-major order, is i/4 - 2 for floats, i - 2 for integers, i for bytes and i % 3 == 0 for bool.
"""
import io
import os

import numpy as np
import torch
from numpy.lib import format as npy
from safetensors.torch import save_file

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "fixtures"))


def values(dtype, shape):
    i = np.arange(int(np.prod(shape)))
    kind = np.dtype(dtype).kind
    v = i / 4 - 2 if kind in "fc" else i % 3 == 0 if kind == "b" else i if kind == "u" else i - 2
    return v.astype(dtype).reshape(shape)


for name, dtype in (("f4", "<f4"), ("f8", "<f8"), ("f2", "<f2"), ("i8", "<i8"), ("i4", "<i4"), ("u1", "|u1"), ("b1", "|b1")):
    np.save(f"{name}.npy", values(dtype, (2, 3)))
np.save("fortran.npy", np.asfortranarray(values("<f4", (2, 3, 4))))
np.save("scalar.npy", values("<f8", ()))
np.save("empty.npy", values("<i8", (0, 3)))
np.save("big_endian.npy", values(">f4", (3,)))
np.save("i2.npy", values("<i2", (3,)))
np.save("fields.npy", np.zeros(2, dtype=[("a", "<f4"), ("b", "<i4")]))
for version in ((2, 0), (3, 0)):
    with open(f"version{version[0]}.npy", "wb") as f:
        npy.write_array(f, values("<f4", (5,)), version=version)

arrays = {"weight": values("<f4", (3, 4)), "layer/bias": values("<f8", (3,)), "count": values("<i8", ()), "mask": values("|b1", (2, 2))}
np.savez("stored.npz", **arrays)
np.savez_compressed("deflated.npz", **arrays)

save_file({"weight": torch.from_numpy(values("<f4", (3, 4))), "bias": torch.from_numpy(values("<f4", (3,))).bfloat16(),
           "half": torch.from_numpy(values("<f2", (2,))), "double": torch.from_numpy(values("<f8", (1, 2))), "long": torch.from_numpy(values("<i8", ())),
           "int": torch.from_numpy(values("<i4", (4,))), "byte": torch.from_numpy(values("|u1", (3,))), "mask": torch.from_numpy(values("|b1", (2, 2))),
           "empty": torch.zeros(0, 3), "naïve \"name\"\n": torch.ones(1)}, "python.safetensors", metadata={"format": "pt", "é": "\\ \"x\"\n"})
