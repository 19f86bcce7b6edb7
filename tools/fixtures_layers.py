#!/usr/bin/env python3
"""Reference values from PyTorch for the layers: python tools/fixtures_layers.py > tests/fixtures/layers.txt

A layer has its state under state_dict's names, inputs, the result, and gradients of sum(w · result) for inputs and parameters, then buffers after the call.  Values are f32 numbers; PyTorch
computes in f64.
"""
import torch
from torch import nn

from fixtures import emit, weight

torch.manual_seed(7)


def single(t):
    return t.float() if t.dtype.is_floating_point else t


def layer(name, module, inputs, call=None, training=False):
    module = module.double()
    with torch.no_grad():
        for p in list(module.parameters()) + [b for b in module.buffers() if b.dtype.is_floating_point]:
            fresh = torch.rand(p.shape) + 0.25 if (p == 1).all() else torch.randn(p.shape) * 0.5
            p.copy_(fresh.float().double())
    module.train(training)
    print("layer", name, "train" if training else "eval")
    for key, value in module.state_dict().items():
        print("name", key)
        emit("state", single(value))
    xs = [x.float().double().requires_grad_(True) for x in inputs]
    for x in xs:
        emit("in", single(x))
    y = call(module, *xs) if call else module(*xs)
    emit("out", single(y))
    w = torch.tensor(weight(y.numel()), dtype=y.dtype).reshape(y.shape)
    names = [k for k, _ in module.named_parameters()]
    grads = torch.autograd.grad((y * w).sum(), xs + list(module.parameters()))
    for g in grads[:len(xs)]:
        emit("grad", single(g))
    for k, g in zip(names, grads[len(xs):]):
        print("name", k)
        emit("slope", single(g))
    for key, value in module.named_buffers():
        print("name", key)
        emit("after", single(value))
    print("end")


def causal(n):
    return torch.triu(torch.full((n, n), float("-inf"), dtype=torch.float64), 1)


r = torch.randn
layer("conv1", nn.Conv1d(2, 3, 3, stride=2, padding=1), [r(2, 2, 7)])
layer("conv2", nn.Conv2d(4, 4, (3, 2), padding=(1, 0), dilation=(1, 2), groups=2), [r(1, 4, 5, 5)])
layer("conv3", nn.Conv3d(1, 2, 2, bias=False), [r(1, 1, 3, 3, 3)])
layer("conv_transpose2", nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1), [r(1, 2, 3, 3)])
layer("conv_transpose1", nn.ConvTranspose1d(4, 4, 2, groups=2), [r(2, 4, 3)])


class Separable(nn.Module):
    def __init__(self):
        super().__init__()
        self.depthwise = nn.Conv2d(3, 3, 3, padding=1, groups=3)
        self.pointwise = nn.Conv2d(3, 2, 1)

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


layer("separable", Separable(), [r(1, 3, 4, 4)])
layer("batch_norm", nn.BatchNorm2d(3), [r(2, 3, 2, 2)], training=True)
layer("batch_norm", nn.BatchNorm2d(3), [r(2, 3, 2, 2)])
layer("batch_norm_plain", nn.BatchNorm1d(3, affine=False), [r(4, 3)], training=True)
layer("group_norm", nn.GroupNorm(2, 4), [r(2, 4, 3)])
layer("instance_norm", nn.InstanceNorm1d(2, affine=True), [r(2, 2, 4)])
layer("rms_norm", nn.RMSNorm(5), [r(3, 5)])
layer("prelu", nn.PReLU(3), [r(2, 3, 2)])
layer("bilinear", nn.Bilinear(3, 2, 4), [r(2, 2, 3), r(2, 2, 2)])
layer("rnn", nn.RNN(3, 2), [r(4, 2, 3)], lambda m, x: m(x)[0])
layer("lstm", nn.LSTM(3, 2, num_layers=2, bidirectional=True), [r(4, 2, 3)], lambda m, x: m(x)[0])
layer("gru", nn.GRU(3, 2, batch_first=True, bias=False), [r(2, 4, 3)], lambda m, x: m(x)[0])
layer("multihead", nn.MultiheadAttention(6, 2, batch_first=True), [r(2, 3, 6), r(2, 4, 6), r(2, 4, 6)],
      lambda m, q, k, v: m(q, k, v, need_weights=False)[0])
layer("multihead_causal", nn.MultiheadAttention(4, 2, batch_first=True, bias=False), [r(1, 4, 4)],
      lambda m, x: m(x, x, x, attn_mask=causal(4), need_weights=False)[0])
layer("encoder", nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True), [r(2, 3, 4)], training=True)
layer("encoder_first", nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, activation="gelu", norm_first=True, batch_first=True), [r(2, 3, 4)], training=True)
layer("decoder", nn.TransformerDecoderLayer(4, 2, 6, dropout=0.0, batch_first=True), [r(2, 3, 4), r(2, 5, 4)],
      lambda m, x, memory: m(x, memory, tgt_mask=causal(3)), training=True)
