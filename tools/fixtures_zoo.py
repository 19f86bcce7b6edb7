#!/usr/bin/env python3
"""Reference values from PyTorch for the models of the zoo: python tools/fixtures_zoo.py > tests/fixtures/zoo.txt

A model has the arguments it is built with, the loss of ten training steps, and of every parameter and buffer some elements and the norm: of its first gradient and of its value at the end.
Weights, data and labels come from the formulas below, which tests/test_zoo_parity.c has too; noise is drawn from the library's random streams (src/core/philox.h), written out here once
more.  PyTorch computes in f64.
"""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


torch.set_default_dtype(torch.float64)
STEPS, SEED, SAMPLING = 10, 9, 4


# ---- the library's random numbers -----------------------------------------------------------------------------------------------------------------


def words(call, blocks):
    k0, k1 = (SEED ^ SAMPLING * 0x9E3779B9) & 0xFFFFFFFF, (SAMPLING * 0xBB67AE85) & 0xFFFFFFFF
    c = [np.full(blocks, call, np.uint64), np.zeros(blocks, np.uint64), np.arange(blocks, dtype=np.uint64), np.zeros(blocks, np.uint64)]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, 1).reshape(-1)


class Stream:
    def __init__(self):
        self.call = -1

    def words(self, n):
        self.call += 1
        return words(self.call, (n + 3) // 4)

    def rand(self, *shape):
        n = math.prod(shape)
        return torch.tensor((self.words(n)[:n] >> np.uint64(8)).astype(np.float64) * 2.0**-24).reshape(shape)

    def randn(self, *shape):
        n = math.prod(shape)
        w = self.words(n)
        radius = np.sqrt(-2 * np.log(((w[0::2] >> np.uint64(1)) | np.uint64(1)).astype(np.float64) * 2.0**-31))
        angle = w[1::2].astype(np.float64) * (2 * math.pi * 2.0**-32)
        return torch.tensor(np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(-1)[:n]).reshape(shape)

    def randint(self, high, n):
        w = self.words(2 * n)
        return torch.tensor([((int(w[2 * i + 1]) << 32 | int(w[2 * i])) * high) >> 64 for i in range(n)])


# ---- weights, data ---------------------------------------------------------------------------------------------------------------------------------


def pattern(n, k):
    return torch.tensor([((i * 7919 + k * 104729 + 13) % 1009 - 504) / 504 for i in range(n)])


def fill(net):
    with torch.no_grad():
        for k, (name, p) in enumerate(net.named_parameters()):
            v = pattern(p.numel(), k).reshape(p.shape)
            if p.dim() > 1:
                v = v / math.sqrt(p.numel() / p.shape[0])
            else:
                v = 0.1 * v + (1 if "bn" in name and name.endswith("weight") or ".downsample.1.weight" in name else 0)
            p.copy_(v.float().double())


def rows(batch, features, step):
    i = torch.arange(batch * features).double()
    return ((i * 31 + (i // features) * 17 + step * 7) % 97 / 96).float().double().reshape(batch, features)


def labels(batch, classes, step):
    return (torch.arange(batch) * 3 + step) % classes


# ---- what is written ---------------------------------------------------------------------------------------------------------------------------------


def some(t):
    t = t.detach().double().reshape(-1)
    every = max(1, t.numel() // 6)
    return " ".join("%.9g" % v for v in [t.norm(), *t[::every][:6]])


def model(name, data, settings, batch, lr, momentum, net, loss, parts=None):
    """loss(net, stream, x, y) or, of a model with parts, update(net, optimisers, stream, x, y); momentum < 0: Adam with beta1 = -momentum."""
    fill(net)
    net.train()
    print("model", name, *data, batch, lr, momentum, *settings)
    make = lambda p: torch.optim.Adam(p, lr, (-momentum, 0.999)) if momentum < 0 else torch.optim.SGD(p, lr, momentum)
    optim = [make(getattr(net, p).parameters()) for p in parts] if parts else [make(net.parameters())]
    stream, losses = Stream(), []
    for step in range(STEPS):
        x, y = rows(batch, data[0], step), labels(batch, data[1], step)
        if parts:
            l = loss(net, optim, stream, x, y)
        else:
            l, report = loss(net, stream, x, y)
            optim[0].zero_grad()
            l.backward()
            if step == 0:
                for key, p in net.named_parameters():
                    print("slope", key, ",".join(map(str, p.shape)), some(p.grad))
            optim[0].step()
            l = report
        losses.append(l.item())
    print("loss", *("%.9g" % l for l in losses))
    for key, p in net.named_parameters():
        print("after", key, ",".join(map(str, p.shape)), some(p))
    for key, p in net.named_buffers():
        print("after", key, ",".join(map(str, p.shape)) or "-", some(p))
    print("end")


def classify(net, stream, x, y):
    l = F.cross_entropy(net(x), y)
    return l, l


class LeNet(nn.Module):
    def __init__(self, channels, side, pad1, pad2, c1, c3, c5, f6, classes, tanh, average):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(channels, c1, 5, padding=pad1), nn.Conv2d(c1, c3, 5, padding=pad2)
        last = ((side + 2 * pad1 - 4) // 2 + 2 * pad2 - 4) // 2
        self.fc1 = nn.Linear(c3 * last * last, c5)
        if f6:
            self.fc2 = nn.Linear(c5, f6)
        self.fc3 = nn.Linear(f6 or c5, classes)
        self.act, self.pool, self.shape = (torch.tanh if tanh else F.relu), (F.avg_pool2d if average else F.max_pool2d), (-1, channels, side, side)

    def forward(self, x):
        h = self.pool(self.act(self.conv1(x.reshape(self.shape))), 2)
        h = self.pool(self.act(self.conv2(h)), 2).flatten(1)
        h = self.act(self.fc1(h))
        return self.fc3(self.act(self.fc2(h)) if hasattr(self, "fc2") else h)


class Block(nn.Module):
    def __init__(self, i, o, stride, project):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        if project and (stride > 1 or i != o):
            self.downsample = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))
        self.stride, self.more = stride, o - i

    def forward(self, x):
        h = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if hasattr(self, "downsample"):
            x = self.downsample(x)
        elif self.more:
            x = F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, self.more // 2, self.more - self.more // 2))
        return F.relu(h + x)


class ResNet(nn.Module):
    def __init__(self, channels, side, width, blocks, project, classes):
        super().__init__()
        self.conv1, self.bn1, i = nn.Conv2d(channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), width
        for s, n in enumerate(blocks):
            o = width << s
            setattr(self, "layer%d" % (s + 1), nn.Sequential(*[Block(i if b == 0 else o, o, 2 if b == 0 and s else 1, project) for b in range(n)]))
            i = o
        self.fc, self.stages, self.shape = nn.Linear(i, classes), len(blocks), (-1, channels, side, side)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x.reshape(self.shape))))
        for s in range(self.stages):
            h = getattr(self, "layer%d" % (s + 1))(h)
        return self.fc(h.mean((2, 3)))


class VAE(nn.Module):
    def __init__(self, inputs, hidden, latent):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(inputs, hidden), nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.fc3, self.fc4 = nn.Linear(latent, hidden), nn.Linear(hidden, inputs)


def elbo(beta):
    def loss(net, stream, x, y):
        h = F.relu(net.fc1(x))
        mu, logvar = net.fc21(h), net.fc22(h)
        q = torch.distributions.Normal(mu, (logvar / 2).exp())
        z = mu + q.stddev * stream.randn(*mu.shape)
        p = torch.distributions.Bernoulli(logits=net.fc4(F.relu(net.fc3(z))), validate_args=False)
        l = (-p.log_prob(x).sum(1) + beta * torch.distributions.kl_divergence(q, torch.distributions.Normal(torch.zeros(()), torch.ones(()))).sum(1)).mean()
        return l, l

    return loss


class Generator(nn.Module):
    def __init__(self, latent, width, channels, side):
        super().__init__()
        self.fc, self.bn1 = nn.Linear(latent, 2 * width * (side // 4)**2, bias=False), nn.BatchNorm2d(2 * width)
        self.deconv1, self.bn2 = nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width)
        self.deconv2, self.shape, self.latent = nn.ConvTranspose2d(width, channels, 4, 2, 1), (-1, 2 * width, side // 4, side // 4), latent

    def forward(self, z):
        h = F.relu(self.bn1(self.fc(z).reshape(self.shape)))
        return torch.tanh(self.deconv2(F.relu(self.bn2(self.deconv1(h)))))


class Discriminator(nn.Module):
    def __init__(self, width, channels, side):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(channels, width, 4, 2, 1), nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False)
        self.bn2, self.fc = nn.BatchNorm2d(2 * width), nn.Linear(2 * width * (side // 4)**2, 1)

    def forward(self, x):
        return self.fc(F.leaky_relu(self.bn2(self.conv2(F.leaky_relu(self.conv1(x), 0.2))), 0.2).flatten(1))


class DCGAN(nn.Module):
    def __init__(self, latent, width, channels, side):
        super().__init__()
        self.generator, self.discriminator, self.shape = Generator(latent, width, channels, side), Discriminator(width, channels, side), (-1, channels, side, side)


def adversaries(net, optim, stream, x, y):
    bce, one = F.binary_cross_entropy_with_logits, torch.ones(len(x), 1)
    made = net.generator(stream.randn(len(x), net.generator.latent))
    optim[0].zero_grad()
    apart = bce(net.discriminator((2 * x - 1).reshape(net.shape)), one) + bce(net.discriminator(made.detach()), 0 * one)
    apart.backward()
    optim[0].step()
    optim[1].zero_grad()
    bce(net.discriminator(made), one).backward()
    optim[1].step()
    return apart


class RBM(nn.Module):
    def __init__(self, visible, hidden):
        super().__init__()
        self.W, self.b, self.c = nn.Parameter(torch.zeros(hidden, visible)), nn.Parameter(torch.zeros(hidden)), nn.Parameter(torch.zeros(visible))

    def free_energy(self, x):
        return -x @ self.c - F.softplus(x @ self.W.T + self.b, threshold=700).sum(1)


def contrastive(k, draw):
    def loss(net, stream, x, y):
        with torch.no_grad():
            v = x
            for i in range(k):
                if i:
                    v = (stream.rand(*v.shape) < v).double()
                h = torch.sigmoid(v @ net.W.T + net.b)
                v = torch.sigmoid((stream.rand(*h.shape) < h).double() @ net.W + net.c)
            if draw:
                v = (stream.rand(*v.shape) < v).double()
        return (net.free_energy(x) - net.free_energy(v)).mean(), ((v - x)**2).sum(1).mean()

    return loss


class DDPM(nn.Module):
    def __init__(self, features, hidden, layers, T):
        super().__init__()
        sizes = [features + 64] + [hidden] * layers
        parts = [m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.SiLU())]
        self.net = nn.Sequential(*parts, nn.Linear(hidden, features))
        self.register_buffer("betas", torch.linspace(1e-4, 0.02, T))
        self.register_buffer("alphas_cumprod", torch.cumprod(1 - self.betas, 0))


def denoise(net, stream, x, y):
    t = stream.randint(len(net.betas), len(x))
    eps, a = stream.randn(*x.shape), net.alphas_cumprod[t][:, None]
    angle = t[:, None] * torch.exp(-math.log(10000) * torch.arange(32) / 32)
    l = F.mse_loss(net.net(torch.cat((a.sqrt() * x + (1 - a).sqrt() * eps, angle.sin(), angle.cos()), 1)), eps)
    return l, l


model("lenet5", (64, 3, 1, 8, 8), ["c1=3", "c3=4", "c5=6", "f6=5", "dropout=0"], 4, 0.05, 0.9, LeNet(1, 8, 2, 2, 3, 4, 6, 5, 3, False, False), classify)
model("lenet5", (784, 10, 1, 28, 28), ["c1=2", "c3=3", "c5=6", "f6=0", "dropout=0", "activation=tanh", "pool=average"], 2, 0.05, 0.9,
      LeNet(1, 28, 2, 0, 2, 3, 6, 0, 10, True, True), classify)
model("resnet", (192, 4, 3, 8, 8), ["depth=8", "width=3"], 4, 0.05, 0.9, ResNet(3, 8, 3, [1, 1, 1], False, 4), classify)
model("resnet", (192, 4, 3, 8, 8), ["depth=18", "width=2"], 16, 0.002, 0.9, ResNet(3, 8, 2, [2, 2, 2, 2], True, 4), classify)
model("vae", (12, 2, 0, 0, 0), ["hidden=8", "latent=3", "beta=1"], 5, 0.01, -0.9, VAE(12, 8, 3), elbo(1))
model("vae", (12, 2, 0, 0, 0), ["hidden=8", "latent=3", "beta=4"], 5, 0.05, 0, VAE(12, 8, 3), elbo(4))
model("dcgan", (64, 2, 1, 8, 8), ["latent=5", "width=3"], 4, 0.01, -0.5, DCGAN(5, 3, 1, 8), adversaries, ["discriminator", "generator"])
model("rbm", (9, 2, 0, 0, 0), ["hidden=7", "k=1", "visible=mean"], 6, 0.1, 0, RBM(9, 7), contrastive(1, False))
model("rbm", (9, 2, 0, 0, 0), ["hidden=7", "k=3", "visible=sample"], 6, 0.1, 0.5, RBM(9, 7), contrastive(3, True))
model("ddpm", (2, 2, 0, 0, 0), ["hidden=8", "layers=3", "diffusion=1000"], 16, 0.01, -0.9, DDPM(2, 8, 3, 1000), denoise)
