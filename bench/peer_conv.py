# The convolutions or the poolings (the argument: conv or pool) of bench/conv.c in its order, value and all derivatives, f32.  Of row-major and channels_last inputs the
# faster one is measured.
import bench, sys, time, torch, torch.nn.functional as F

LAYOUTS = (torch.contiguous_format, torch.channels_last)


def conv(layout, n, c, side, o, k, groups):
    x = torch.randn(n, c, side, side).to(memory_format=layout).requires_grad_()
    w = torch.randn(o, c // groups, k, k).to(memory_format=layout).requires_grad_()
    dy = torch.randn(n, o, side, side).to(memory_format=layout)
    return lambda: torch.autograd.grad(F.conv2d(x, w, padding=k // 2, groups=groups), (x, w), dy)


def pool(layout, fn, n, c, side, k, padding):
    x = torch.randn(n, c, side, side).to(memory_format=layout).requires_grad_()
    dy = torch.randn(n, c, side // 2, side // 2).to(memory_format=layout)
    return lambda: torch.autograd.grad(fn(x, k, 2, padding), x, dy)


def seconds(step):
    best = float("inf")
    for _ in range(5):
        t = time.perf_counter(); step(); best = min(best, time.perf_counter() - t)
    return best


CASES = {
    "conv": (conv, [(16, 64, 56, 64, 3, 1), (16, 128, 28, 256, 3, 1), (16, 256, 14, 512, 3, 1), (16, 64, 56, 64, 3, 64), (16, 64, 56, 64, 1, 1),
                    (64, 6, 28, 16, 5, 1)]),
    "pool": (pool, [(fn, 32, 64, 56, k, k // 3) for fn in (F.max_pool2d, F.avg_pool2d) for k in (2, 3)]),
}
make, cases = CASES[sys.argv[2]]
for case in cases:
    step = min((make(layout, *case) for layout in LAYOUTS), key=seconds)
    bench.run(f"{sys.argv[2]}_{'_'.join(str(v) for v in case if isinstance(v, int))}", step, case[0])
