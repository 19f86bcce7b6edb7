# softmax, layernorm or cross_entropy (the argument), forward and backward, at the sizes of bench/rows.c and in its order; f32.
import bench, sys, torch, torch.nn.functional as F

SIZES = [(128, 10), (1024, 1024), (2048, 256), (512, 50257)]


def softmax(n, c):
    x = torch.randn(n, c, requires_grad=True); dy = torch.randn(n, c)
    return lambda: torch.autograd.grad(F.softmax(x, -1), x, dy)


def layernorm(n, c):
    x = torch.randn(n, c, requires_grad=True); dy = torch.randn(n, c)
    w = torch.ones(c, requires_grad=True); b = torch.zeros(c, requires_grad=True)
    return lambda: torch.autograd.grad(F.layer_norm(x, (c,), w, b), (x, w, b), dy)


def cross_entropy(n, c):
    x = torch.randn(n, c, requires_grad=True); target = torch.randint(0, c, (n,))
    return lambda: torch.autograd.grad(F.cross_entropy(x, target), x)


make = globals()[sys.argv[2]]
for n, c in SIZES: bench.run(f"{make.__name__}_{n}x{c}", make(n, c), n)
