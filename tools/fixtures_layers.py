#!/usr/bin/env python3
"""Reference values from PyTorch for the layers: python tools/fixtures_layers.py > tests/fixtures/layers.txt

A layer has its state under state_dict's names, inputs, the result, and gradients of sum(w · result) for inputs and parameters, then buffers after the call, and the whole state after ten
more steps of gradient descent (rate 0.05, momentum 0.9) on mean((result - w)²).  Values are f32 numbers; PyTorch computes in f64.  Layers that PyTorch has not are written out here.
"""
import math

import torch
import torch.nn.functional as F
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
    xs = [x.float().double().requires_grad_(True) if x.dtype.is_floating_point else x for x in inputs]
    floats = [x for x in xs if x.dtype.is_floating_point]
    for x in xs:
        emit("in", single(x))
    y = call(module, *xs) if call else module(*xs)
    emit("out", single(y))
    w = torch.tensor(weight(y.numel()), dtype=y.dtype).reshape(y.shape)
    names = [k for k, _ in module.named_parameters()]
    grads = torch.autograd.grad((y * w).sum(), floats + list(module.parameters()))
    for g in grads[:len(floats)]:
        emit("grad", single(g))
    for k, g in zip(names, grads[len(floats):]):
        print("name", k)
        emit("slope", single(g))
    for key, value in module.named_buffers():
        print("name", key)
        emit("after", single(value))
    if names:
        descent = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
        for _ in range(10):
            y = call(module, *xs) if call else module(*xs)
            descent.zero_grad()
            ((y - w) ** 2).mean().backward()
            descent.step()
    for key, value in module.state_dict().items() if names else ():
        print("name", key)
        emit("stepped", single(value))
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


class Formula(nn.Module):
    """Parameters of these shapes, and a function of self and the inputs."""

    def __init__(self, function, buffers=(), **shapes):
        super().__init__()
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))
        for name, value in dict(buffers).items():
            self.register_buffer(name, value)
        self.function = function

    def forward(self, *xs):
        return self.function(self, *xs)


layer("linear", nn.Linear(4, 3), [r(2, 4)])
layer("embedding", nn.Embedding(5, 3), [torch.tensor([[0, 4, 2], [2, 2, 1]])])
layer("layer_norm", nn.LayerNorm(6), [r(3, 6)])
layer("conv_reflect", nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"), [r(1, 2, 4, 4)])
layer("conv_cyclic", nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), [r(2, 2, 5)])


def locally_connected(m, x):
    windows = x.unfold(2, 2, 1).unfold(3, 2, 2)  # [N, C, 2, 2, kernel, kernel]
    return torch.einsum("ncijkl,ocijkl->noij", windows, m.weight) + m.bias[:, None, None]


layer("locally_connected", Formula(locally_connected, weight=(3, 2, 2, 2, 2, 2), bias=(3,)), [r(2, 2, 3, 4)])


def pool_and_back(m, x):
    y, index = F.max_pool2d(x, 2, return_indices=True)
    return F.max_unpool2d(y, index, 2, output_size=x.shape[2:])


layer("unpool", Formula(pool_and_back), [r(1, 2, 5, 4)])
layer("softmax_pool", Formula(lambda m, x: (lambda w: (torch.softmax(m.beta * w, -1) * w).sum(-1))(x.unfold(2, 2, 2)), beta=()), [r(2, 2, 6)])
layer("upsample", nn.Upsample(scale_factor=2, mode="bilinear"), [r(1, 2, 3, 3)])
layer("adaptive_pool", nn.AdaptiveAvgPool2d((2, 3)), [r(1, 2, 5, 7)])


def whiten(m, x):
    mean = x.mean(0)
    d = x - mean
    w, v = torch.linalg.eigh(d.T @ d / len(x) + 1e-5 * torch.eye(x.shape[1], dtype=x.dtype))
    matrix = v @ torch.diag(w ** -0.5) @ v.T
    with torch.no_grad():
        m.running_mean += 0.1 * (mean - m.running_mean)
        m.running_matrix += 0.1 * (matrix - m.running_matrix)
    return d @ matrix


layer("whiten", Formula(whiten, {"running_mean": torch.zeros(3), "running_matrix": torch.eye(3)}), [r(8, 3)], training=True)
layer("weight_norm", torch.nn.utils.weight_norm(nn.Linear(3, 4)), [r(2, 3)])
layer("spectral_norm", torch.nn.utils.spectral_norm(nn.Linear(3, 4), eps=1e-12), [r(2, 3)], training=True)


def light_gru(m, x):
    h, out = torch.zeros(x.shape[1], 2, dtype=x.dtype), []
    for step in x:
        a = step @ m.weight_ih_l0.T + m.bias_ih_l0 + h @ m.weight_hh_l0.T + m.bias_hh_l0
        z, n = torch.sigmoid(a[:, :2]), torch.relu(a[:, 2:])
        h = (1 - z) * n + z * h
        out.append(h)
    return torch.stack(out)


layer("light_gru", Formula(light_gru, weight_ih_l0=(4, 3), weight_hh_l0=(4, 2), bias_ih_l0=(4,), bias_hh_l0=(4,)), [r(4, 2, 3)])


def packed(m, x):
    lengths = torch.tensor([5, 2, 3])
    y = m(nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False))[0]
    return nn.utils.rnn.pad_packed_sequence(y, total_length=5)[0]


layer("lstm_lengths", nn.LSTM(2, 3, bidirectional=True), [r(5, 3, 2)], packed)
layer("gru_lengths", nn.GRU(2, 3, num_layers=2), [r(5, 3, 2)], packed)


def windows(m, x):
    """Three steps, then three more from the state they left, through which no gradient goes back."""
    a, h = m(x[:3])
    b, _ = m(x[3:], tuple(s.detach() for s in h))
    return torch.cat([a, b])


layer("lstm_stateful", nn.LSTM(2, 3), [r(6, 2, 2)], windows)


def attended(score):
    def call(m, q, k, v):
        return torch.softmax(score(m, q, k), -1) @ v
    return call


layer("additive", Formula(attended(lambda m, q, k: torch.tanh((q @ m.query.T)[:, :, None] + (k @ m.key.T)[:, None]) @ m.vector), query=(3, 2), key=(3, 4), vector=(3,)),
      [r(2, 3, 2), r(2, 5, 4), r(2, 5, 2)])
layer("dot", Formula(attended(lambda m, q, k: q @ k.mT)), [r(2, 3, 4), r(2, 5, 4), r(2, 5, 2)])
layer("general", Formula(attended(lambda m, q, k: q @ m.weight.T @ k.mT), weight=(4, 2)), [r(2, 3, 2), r(2, 5, 4), r(2, 5, 2)])
layer("reduced_rank", Formula(attended(lambda m, q, k: (q @ m.query.T) @ (k @ m.key.T).mT), query=(2, 3), key=(2, 4)), [r(2, 3, 3), r(2, 5, 4), r(2, 5, 2)])


def relative(m, q, k, v):
    offset = torch.arange(5)[None] - torch.arange(3)[:, None]
    bias = m.weight[:, offset.clamp(-2, 2) + 2]  # [heads, 3, 5]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


layer("relative", Formula(relative, weight=(2, 5)), [r(1, 2, 3, 4), r(1, 2, 5, 4), r(1, 2, 5, 4)])


def rotary(m, x):
    turn = (3 + torch.arange(4))[:, None] * 10000 ** (-torch.arange(0, 6, 2) / 6).double()
    pair = torch.view_as_complex(torch.stack([x[..., :3], x[..., 3:]], -1)) * torch.polar(torch.ones_like(turn), turn)
    return torch.cat([pair.real, pair.imag], -1)


layer("rotary", Formula(rotary), [r(2, 4, 6)])


def sinusoidal(m, x):
    t, p = torch.arange(4).double(), torch.zeros(4, 6, dtype=x.dtype)
    for i in range(3):
        w = math.exp(-2 * i / 6 * math.log(10000))
        p[:, 2 * i], p[:, 2 * i + 1] = torch.sin(t * w), torch.cos(t * w)
    return x + p


layer("sinusoidal", Formula(sinusoidal), [r(2, 4, 6)])
layer("learned_positions", Formula(lambda m, x: x + m.weight[:3], weight=(5, 4)), [r(2, 3, 4)])


def graph_conv(m, x):
    a = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0], [0, 1, 0, 1]]).double()
    d = a.sum(1) ** -0.5
    return (d[:, None] * a * d) @ x @ m.weight.T + m.bias


layer("graph_conv", Formula(graph_conv, weight=(2, 3), bias=(2,)), [r(4, 3)])


def map_attention(m, x):
    h = x.flatten(2).mT
    y = torch.softmax((h @ m.query.T) @ (h @ m.key.T).mT, -1) @ (h @ m.value.T)
    return y.mT.reshape(2, 2, 2, 3)


layer("map_attention", Formula(map_attention, key=(3, 4), query=(3, 4), value=(2, 4)), [r(2, 4, 2, 3)])
layer("decoder_first", nn.TransformerDecoderLayer(4, 2, 6, dropout=0.0, activation="gelu", norm_first=True, batch_first=True), [r(2, 3, 4), r(2, 5, 4)],
      lambda m, x, memory: m(x, memory, tgt_mask=causal(3)), training=True)
