"""Small files for tests/test_data_readers.c: MATLAB 5 by SciPy, and a graph of six nodes in the layout of Planetoid's pickles (protocol 2, Python 2's module names)."""
import io
import pickle
import sys

import numpy as np
import scipy.io
import scipy.sparse as sp

out = sys.argv[1] if len(sys.argv) > 1 else "tests/fixtures"

cell = np.empty(1, object)
cell[0] = "c"
arrays = {
    "a": np.array([[1.5, 2, 3], [4, 5, 6]]),
    "u": np.arange(12, dtype=np.uint8).reshape(2, 3, 2),
    "flag": np.array([True, False]),
    "big": np.array([[-9007199254740993]], np.int64),
    "word": "hello",
    "cell": cell,
    "s": {"field": 1.0},
    "z": np.array([[1 + 2j]]),
}
scipy.io.savemat(f"{out}/small.mat", arrays)
scipy.io.savemat(f"{out}/packed.mat", arrays, do_compression=True)


def u(*b):
    return bytes(b)


def text(s):
    return b"U" + u(len(s)) + s


def array(a):
    """numpy.core.multiarray._reconstruct(numpy.ndarray, (0,), 'b') with the state (1, shape, dtype, False, bytes)"""
    a = np.ascontiguousarray(a)
    kind = {"f": b"f", "i": b"i"}[a.dtype.kind] + str(a.dtype.itemsize).encode()
    shape = b"(" + b"".join(b"K" + u(n) for n in a.shape) + b"t"
    dtype = b"cnumpy\ndtype\n" + text(kind) + b"K\0K\1\x87R" + b"(K\3" + text(b"<") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
    return b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85" + text(b"b") + b"\x87R(K\1" + shape + dtype + b"\x89" + text(a.tobytes()) + b"tb"


def csr(m):
    m = sp.csr_matrix(np.array(m, np.float32))
    shape = b"K" + u(m.shape[0]) + b"K" + u(m.shape[1]) + b"\x86"
    state = b"}(" + text(b"_shape") + shape + text(b"indptr") + array(m.indptr.astype(np.int32)) + text(b"indices") + array(m.indices.astype(np.int32))
    return b"cscipy.sparse.csr\ncsr_matrix\n)\x81" + state + text(b"data") + array(m.data) + b"ub"


def save(name, body):
    with open(f"{out}/ind.tiny.{name}", "wb") as f:
        f.write(b"\x80\2" + body + b".")


save("x", csr([[1, 0, 0], [0, 1, 0]]))
save("allx", csr([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]))
save("tx", csr([[0, 3, 0], [2, 0, 0]]))
one = np.eye(2, dtype=np.int32)
save("y", array(one[[0, 1]]))
save("ally", array(one[[0, 1, 0, 1]]))
save("ty", array(one[[0, 1]]))
graph = {0: [1, 5], 1: [0, 2], 2: [1, 3, 3], 3: [2, 4], 4: [3], 5: [0]}
body = b"ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R("
for node, neighbours in graph.items():
    body += b"K" + u(node) + b"]" + (b"K" + u(neighbours[0]) + b"a" if len(neighbours) == 1 else b"(" + b"".join(b"K" + u(n) for n in neighbours) + b"e")
save("graph", body + b"u")
with open(f"{out}/ind.tiny.test.index", "w") as f:
    f.write("5\n4\n")
