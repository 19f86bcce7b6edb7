# Scaled dot-product attention, forward and backward, and single queries against a cache, at the sizes of bench/attention.c and in its order; f32.
import bench, torch, torch.nn.functional as F

SIZES = [(16, 8, 128, 128, 32, False), (16, 8, 128, 128, 32, True), (16, 8, 1024, 1024, 32, False), (16, 8, 1024, 1024, 32, True),
         (4, 12, 256, 256, 64, True), (16, 8, 1, 128, 32, False), (16, 8, 1, 1024, 32, False)]


def make(b, h, tq, tk, d, causal):
    q, k, v, dy = (torch.randn(b, h, t, d) for t in (tq, tk, tk, tq))
    if tq == 1:
        def decode():
            with torch.inference_mode(): return F.scaled_dot_product_attention(q, k, v)
        return decode
    for x in (q, k, v): x.requires_grad_(True)
    return lambda: torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=causal), (q, k, v), dy)


for size in SIZES: bench.run("attention_" + "_".join(map(str, size)), make(*size), size[0])
