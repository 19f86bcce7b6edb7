# Up-sampling by two and grid sampling, at the sizes of bench/resample.c and in its order; f32; the faster of the two memory layouts.
import bench, time, torch, torch.nn.functional as F


def fastest(*steps):
    def cost(step):
        step()
        best = float("inf")
        for _ in range(3):
            t = time.perf_counter(); step(); best = min(best, time.perf_counter() - t)
        return best
    return min(steps, key=cost)


def up(n, c, size, mode, backward):
    def make(layout):
        x = torch.randn(n, c, size, size).contiguous(memory_format=layout); dy = torch.randn(n, c, 2 * size, 2 * size).contiguous(memory_format=layout)
        if not backward: return lambda: F.interpolate(x, scale_factor=2, mode=mode)
        x.requires_grad_()
        return lambda: torch.autograd.grad(F.interpolate(x, scale_factor=2, mode=mode), x, dy)
    return fastest(make(torch.contiguous_format), make(torch.channels_last))


def grid(n, c, size):
    def make(layout):
        x = torch.randn(n, c, size, size).contiguous(memory_format=layout).requires_grad_(); dy = torch.randn(n, c, size, size).contiguous(memory_format=layout)
        at = (torch.rand(n, size, size, 2) * 2 - 1).requires_grad_()
        return lambda: torch.autograd.grad(F.grid_sample(x, at, align_corners=False), (x, at), dy)
    return fastest(make(torch.contiguous_format), make(torch.channels_last))


for mode in ("bilinear", "nearest"):
    for backward in (False, True): bench.run(f"up_{mode}_{backward}", up(64, 64, 56, mode, backward))
bench.run("up_bicubic", up(16, 64, 56, "bicubic", True))
bench.run("up_small", up(8, 16, 16, "bilinear", True))
bench.run("grid_sample", grid(8, 32, 56))
