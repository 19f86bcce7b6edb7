#!/usr/bin/env python3
"""Reference values from PyTorch for recurrent networks: python tools/fixtures_recurrent.py > tests/fixtures/recurrent.txt

Arguments: the cell (rnn, lstm, gru, rnn with relu), layers, directions, 1 for sequences of different lengths (packed).  Inputs: x [T, N, I], all weights in PyTorch's order as one
vector, and for single layers the first states h0 (and c0).  The result is y, h_n (and c_n) in one vector.
"""
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from fixtures import *

T, N, I, H = 4, 3, 2, 2
LENGTHS = torch.tensor([2, 4, 1])
CELLS = [lambda **o: nn.RNN(I, H, **o), lambda **o: nn.LSTM(I, H, **o), lambda **o: nn.GRU(I, H, **o),
         lambda **o: nn.RNN(I, H, nonlinearity="relu", **o)]


def network(x, flat, *rest):
    states, (cell, layers, directions, packed) = rest[:-4], rest[-4:]
    net = CELLS[cell](num_layers=layers, bidirectional=directions == 2, dtype=x.dtype)
    weights, at = {}, 0
    for name, p in net.named_parameters():
        weights[name] = flat[at:at + p.numel()].reshape(p.shape)
        at += p.numel()
    assert at == flat.numel()
    first = tuple(s.unsqueeze(0) for s in states)
    first = (first if cell == 1 else first[0]) if first else None
    if packed:
        x = pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
    y, last = torch.func.functional_call(net, weights, (x, first))
    if packed:
        y, _ = pad_packed_sequence(y, total_length=T)
    last = last if cell == 1 else (last,)
    return torch.cat([y.reshape(-1), *(s.reshape(-1) for s in last)])


def count(cell, layers, directions):
    return sum(p.numel() for p in CELLS[cell](num_layers=layers, bidirectional=directions == 2).parameters())


for cell in range(4):
    states = 2 if cell == 1 else 1
    for dtype in (torch.float64, torch.float32):
        case("recurrent", network, [rand(T, N, I, dtype=dtype), rand(count(cell, 1, 1), low=-1, high=1, dtype=dtype), *(rand(N, H, dtype=dtype) for _ in range(states))],
             (cell, 1, 1, 0), hvp=dtype == torch.float64)
    for layers, directions, packed in ((2, 1, 0), (1, 2, 1), (2, 2, 0)):
        case("recurrent", network, [rand(T, N, I), rand(count(cell, layers, directions), low=-1, high=1)], (cell, layers, directions, packed), hvp=False)
    case("recurrent", network, [rand(T, N, I), rand(count(cell, 1, 1), low=-1, high=1), *(rand(N, H) for _ in range(states))], (cell, 1, 1, 1), hvp=False)
