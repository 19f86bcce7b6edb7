# Ordering, scans, lookups and bags at the sizes of bench/order.c and in its order; f32.
import bench, torch, torch.nn.functional as F

ROWS, WIDTH, BAGS, BAG = 50257, 256, 1024, 20
w = torch.randn(ROWS, WIDTH, requires_grad=True)


def embedding():
    index = torch.randint(0, ROWS, (16, 128)); dy = torch.randn(16, 128, WIDTH)
    return lambda: torch.autograd.grad(F.embedding(index, w), w, dy)


def topk(n, c, k):
    x = torch.randn(n, c)
    return lambda: torch.topk(x, k)


def sort():
    x = torch.randn(1000000)
    return lambda: torch.sort(x)


def cumsum():
    x = torch.randn(1000000)
    return lambda: torch.cumsum(x, 0)


def scatter_add():
    x = torch.randn(1000000); source = torch.randn(1000000); index = torch.randint(0, 1000000, (1000000,))
    return lambda: x.scatter_add(0, index, source)


def bag(grad):
    index = torch.randint(0, ROWS, (BAGS * BAG,)); offsets = torch.arange(0, BAGS * BAG, BAG); dy = torch.randn(BAGS, WIDTH)
    if grad: return lambda: torch.autograd.grad(F.embedding_bag(index, w, offsets, mode="sum"), w, dy)
    table = w.detach()
    return lambda: F.embedding_bag(index, table, offsets, mode="sum")


bench.run("embedding", embedding(), 1)
bench.run("topk_64x50257", topk(64, 50257, 50), 1)
bench.run("topk_128x1000", topk(128, 1000, 5), 1)
bench.run("sort", sort(), 1)
bench.run("cumsum", cumsum(), 1)
bench.run("scatter_add", scatter_add(), 1)
bench.run("embedding_bag", bag(False), 1)
bench.run("embedding_bag_grad", bag(True), 1)
