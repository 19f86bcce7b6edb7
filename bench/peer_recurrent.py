# Recurrent networks of two layers, forward and all gradients, at the sizes of bench/recurrent.c and in its order; f32.
import bench, torch, torch.nn as nn

T, N = 64, 32


def training(net, width):
    x = torch.randn(T, N, width, requires_grad=True)
    inputs = [x, *net.parameters()]
    y, _ = net(x)
    dy = torch.randn_like(y)
    return lambda: torch.autograd.grad(net(x)[0], inputs, dy)


def inference(net, width):
    x = torch.randn(T, N, width)

    def step():
        with torch.no_grad(): return net(x)[0]
    return step


CASES = [("lstm", training, nn.LSTM(256, 256, 2), 256), ("gru", training, nn.GRU(256, 256, 2), 256), ("rnn", training, nn.RNN(256, 256, 2), 256),
         ("lstm_both", training, nn.LSTM(128, 128, 1, bidirectional=True), 128), ("lstm_forward", inference, nn.LSTM(256, 256, 2), 256)]
for name, make, net, width in CASES: bench.run(name, make(net, width), T * N)
