#!/usr/bin/env python3
"""Reference values from PyTorch for the zoo's models of sequences and graphs: python tools/fixtures_zoo_seq.py > tests/fixtures/zoo_seq.txt

A model has its state under state_dict's names, x and y, what forward gives (where it has one), the loss, its gradients, then the losses of ten steps of
SGD (rate 0.1, momentum 0.9) and the parameters after them.  Values are f32 numbers; PyTorch computes in f64.
"""
import torch
import torch.nn.functional as F
from torch import nn

from fixtures import emit

torch.manual_seed(11)


def single(t):
    return t.float() if t.dtype.is_floating_point else t


class Language(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.embedding = nn.Embedding(7, 3)
        self.rnn = cell(3, 4, num_layers=2, batch_first=True)
        self.head = nn.Linear(4, 7)

    def forward(self, x):
        return self.head(self.rnn(self.embedding(x))[0])

    def loss(self, x, y):
        return F.cross_entropy(self(x).flatten(0, 1), y.flatten())


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(dim)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(dim, 3 * dim), "c_proj": nn.Linear(dim, dim)})
        self.ln_2 = nn.LayerNorm(dim)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(dim, 4 * dim), "c_proj": nn.Linear(4 * dim, dim)})

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.attn["c_attn"](self.ln_1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + self.attn["c_proj"](y)
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(7, 8)
        self.wpe = nn.Embedding(6, 8)
        self.h = nn.ModuleList([Block(8, 2), Block(8, 2)])
        self.ln_f = nn.LayerNorm(8)
        self.lm_head = nn.Linear(8, 7, bias=False)

    def forward(self, x):
        h = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for block in self.h:
            h = block(h)
        return self.lm_head(self.ln_f(h))

    loss = Language.loss


class Seq2Seq(nn.Module):
    """No forward: the loss is all that training sees."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleDict({"embedding": nn.Embedding(8, 4), "rnn": nn.GRU(4, 3, bidirectional=True)})
        self.bridge = nn.Linear(6, 3)
        self.decoder = nn.ModuleDict({"embedding": nn.Embedding(7, 4), "rnn": nn.GRU(4, 3)})
        self.attention = nn.Linear(3, 6, bias=False)
        self.combine = nn.Linear(9, 3, bias=False)
        self.head = nn.Linear(3, 7)

    def loss(self, x, y):
        lengths = (x != 0).sum(1)
        e = nn.utils.rnn.pack_padded_sequence(self.encoder["embedding"](x.t()), lengths, enforce_sorted=False)
        states, last = self.encoder["rnn"](e)
        states = nn.utils.rnn.pad_packed_sequence(states, total_length=x.shape[1])[0].transpose(0, 1)
        h0 = torch.tanh(self.bridge(torch.cat((last[0], last[1]), -1)))[None]
        s = self.decoder["rnn"](self.decoder["embedding"](y[:, :-1].t()), h0)[0].transpose(0, 1)
        score = self.attention(s) @ states.transpose(1, 2)
        score = score.masked_fill((x == 0)[:, None], float("-inf"))
        a = score.softmax(-1) @ states
        logits = self.head(torch.tanh(self.combine(torch.cat((a, s), -1))))
        return F.cross_entropy(logits.flatten(0, 1), y[:, 1:].flatten(), ignore_index=0, label_smoothing=0.1)


class GCN(nn.Module):
    """A path of six nodes; the weight decay of the first layer is part of the loss."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(4))})
        self.conv1["lin"] = nn.ParameterDict({"weight": nn.Parameter(torch.zeros(4, 5))})
        self.conv2 = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(3))})
        self.conv2["lin"] = nn.ParameterDict({"weight": nn.Parameter(torch.zeros(3, 4))})
        a = torch.eye(6, dtype=torch.float64)
        for i in range(5):
            a[i, i + 1] = a[i + 1, i] = 1
        d = a.sum(1).rsqrt()
        self.q = d[:, None] * a * d
        nodes = ((torch.arange(30) * 7) % 11 + 1).double().reshape(6, 5)
        self.nodes = nodes / nodes.sum(1, keepdim=True)

    def forward(self, x):
        h = F.relu(self.q @ (self.nodes @ self.conv1["lin"]["weight"].t()) + self.conv1["bias"])
        return (self.q @ (h @ self.conv2["lin"]["weight"].t()) + self.conv2["bias"])[x]

    def loss(self, x, y):
        return F.cross_entropy(self(x), y) + 5e-4 / 2 * self.conv1["lin"]["weight"].square().sum()


def model(name, m, x, y):
    m = m.double()
    with torch.no_grad():
        for p in m.parameters():
            p.copy_((torch.randn(p.shape) * 0.5).float().double())
    print("model", name)
    for key, value in m.state_dict().items():
        print("name", key)
        emit("state", single(value))
    emit("x", x)
    emit("y", y)
    if type(m).forward is not nn.Module.forward:
        emit("out", single(m(x)))
    loss = m.loss(x, y)
    emit("loss", single(loss))
    for (key, p), g in zip(m.named_parameters(), torch.autograd.grad(loss, list(m.parameters()))):
        print("name", key)
        emit("slope", single(g))
    sgd = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
    losses = []
    for _ in range(10):
        sgd.zero_grad()
        loss = m.loss(x, y)
        losses.append(loss.item())
        loss.backward()
        sgd.step()
    emit("losses", torch.tensor(losses, dtype=torch.float32))
    for key, p in m.named_parameters():
        print("name", key)
        emit("after", single(p))
    print("end")


text = torch.randint(0, 7, (3, 7))
for name, cell in (("lstm", nn.LSTM), ("gru", nn.GRU), ("rnn", nn.RNN)):
    model(name, Language(cell), text[:, :-1], text[:, 1:])
model("gpt", GPT(), text[:, :-1], text[:, 1:])
model("seq2seq", Seq2Seq(), torch.tensor([[4, 5, 6, 7, 2], [7, 4, 2, 0, 0], [5, 2, 0, 0, 0]]),
      torch.tensor([[1, 4, 5, 2, 0, 0], [1, 6, 5, 4, 5, 2], [1, 3, 2, 0, 0, 0]]))
model("gcn", GCN(), torch.tensor([0, 2, 5]), torch.tensor([0, 1, 2]))
