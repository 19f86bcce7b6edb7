# Batch norm with ReLU, group norm and RMS norm, forward and backward, at the sizes of bench/normalise.c and in its order; f32.  Of the two memory formats the faster one
# counts, except where channels_last is asked for.
import bench, time, torch, torch.nn.functional as F

grad = torch.autograd.grad


def batch(shape, last):
    x = torch.randn(shape); dy = torch.randn(shape); c = shape[1]
    if last: x = x.to(memory_format=torch.channels_last); dy = dy.to(memory_format=torch.channels_last)
    x.requires_grad_(True)
    w = torch.ones(c, requires_grad=True); b = torch.zeros(c, requires_grad=True)
    mean = torch.zeros(c); var = torch.ones(c)
    return lambda: grad(F.relu(F.batch_norm(x, mean, var, w, b, training=True), inplace=True), (x, w, b), dy)


def group(shape, groups, last):
    x = torch.randn(shape); dy = torch.randn(shape); c = shape[1]
    if last: x = x.to(memory_format=torch.channels_last); dy = dy.to(memory_format=torch.channels_last)
    x.requires_grad_(True)
    w = torch.ones(c, requires_grad=True); b = torch.zeros(c, requires_grad=True)
    return lambda: grad(F.group_norm(x, groups, w, b), (x, w, b), dy)


def rms(n, c):
    x = torch.randn(n, c, requires_grad=True); dy = torch.randn(n, c)
    w = torch.ones(c, requires_grad=True)
    return lambda: grad(F.rms_norm(x, (c,), w, 1e-5), (x, w), dy)


def seconds(step):
    step()
    best = 1e9
    for _ in range(15):
        t = time.perf_counter(); step(); best = min(best, time.perf_counter() - t)
    return best


def faster(*steps): return min(steps, key=seconds)


big, small, features, groups = (64, 64, 56, 56), (128, 256, 14, 14), (128, 512), (32, 256, 28, 28)
bench.run("batch_norm_64x64x56x56", faster(batch(big, False), batch(big, True)), 64)
bench.run("batch_norm_64x64x56x56_last", batch(big, True), 64)
bench.run("batch_norm_128x256x14x14", faster(batch(small, False), batch(small, True)), 128)
bench.run("batch_norm_128x512", batch(features, False), 128)
bench.run("group_norm_32x256x28x28", faster(group(groups, 32, False), group(groups, 32, True)), 32)
bench.run("rms_norm_2048x1024", rms(2048, 1024), 2048)
