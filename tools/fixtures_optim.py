"""Optimisers, schedules and averages as PyTorch has them: writes tests/fixtures/optim.txt.

    python tools/fixtures_optim.py > tests/fixtures/optim.txt

A small regression, 100 steps of each rule with the parameters at some of them; then the learning rate of every schedule at steps 0 ... 39; then L-BFGS with its
fixed step on the same regression.  Read by tests/test_parity_optim.c.
"""
import sys

import torch
import torch.nn.functional as F
from torch.optim import lr_scheduler as S
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.manual_seed(20260513)  # starts from which rounding is not amplified: f32 and f64 stay within 1e-6
NAMES = {torch.float64: "f64", torch.float32: "f32"}


def emit(word, t):
    shape = ",".join(str(n) for n in t.shape) or "-"
    print(word, NAMES[t.dtype], shape, *("%.17g" % v for v in t.detach().double().reshape(-1).tolist()))


x, y, w0, b0 = (torch.rand(*s, dtype=torch.float64) * 2 - 1 for s in ((6, 3), (6, 2), (2, 3), (2,)))
x, y, w0, b0 = (t.float().double() for t in (x, y, w0, b0))  # the same numbers in both precisions
for t in (x, y, w0, b0):
    emit("problem", t)

O = torch.optim
RULES = {
    "adagrad": lambda p: O.Adagrad(p, lr=0.1),
    "adagrad_decay": lambda p: O.Adagrad(p, lr=0.2, lr_decay=0.01, weight_decay=0.1, initial_accumulator_value=0.3, eps=1e-6),
    "rmsprop": lambda p: O.RMSprop(p, lr=0.002),
    "rmsprop_momentum": lambda p: O.RMSprop(p, lr=0.0005, alpha=0.9, momentum=0.8, weight_decay=0.1, eps=1e-6),
    "rmsprop_centred": lambda p: O.RMSprop(p, lr=0.002, alpha=0.95, centered=True, eps=1e-3),
    "rmsprop_both": lambda p: O.RMSprop(p, lr=0.001, alpha=0.9, centered=True, momentum=0.5, eps=1e-2),
    "amsgrad": lambda p: O.Adam(p, lr=0.005, amsgrad=True, betas=(0.9, 0.9)),
    "amsgrad_decoupled": lambda p: O.AdamW(p, lr=0.005, amsgrad=True, weight_decay=0.1, betas=(0.3, 0.99)),
    "adamax": lambda p: O.Adamax(p, lr=0.005),
    "adamax_decay": lambda p: O.Adamax(p, lr=0.005, betas=(0.8, 0.95), weight_decay=0.1, eps=1e-6),
    "nadam": lambda p: O.NAdam(p, lr=0.005),
    "nadam_decoupled": lambda p: O.NAdam(p, lr=0.005, betas=(0.8, 0.95), weight_decay=0.1, momentum_decay=0.02, decoupled_weight_decay=True),
    "sgd_maximise": lambda p: O.SGD(p, lr=0.001, momentum=0.5, weight_decay=0.1, maximize=True),
    "clip_value": lambda p: O.SGD(p, lr=0.1, momentum=0.9),
    "sgd": lambda p: O.SGD(p, lr=0.05),
    "nesterov": lambda p: O.SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.1),
    "adam": lambda p: O.Adam(p, lr=0.005, weight_decay=0.1),
    "adamw": lambda p: O.AdamW(p, lr=0.005, betas=(0.8, 0.95), weight_decay=0.1),
    "adadelta": lambda p: O.Adadelta(p, lr=0.5),
    "adadelta_decay": lambda p: O.Adadelta(p, lr=0.3, rho=0.8, eps=1e-4, weight_decay=0.1),
    "radam": lambda p: O.RAdam(p, lr=0.01),
    "radam_decay": lambda p: O.RAdam(p, lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    "rprop": lambda p: O.Rprop(p, lr=0.01),
    "rprop_limits": lambda p: O.Rprop(p, lr=0.02, etas=(0.4, 1.1), step_sizes=(1e-4, 0.05)),
    "asgd": lambda p: O.ASGD(p, lr=0.05),
    "asgd_mean": lambda p: O.ASGD(p, lr=0.1, lambd=0.01, alpha=0.6, t0=20, weight_decay=0.1),
}
for dtype in (torch.float64, torch.float32):
    for name, make in RULES.items():
        w, b = w0.to(dtype).clone().requires_grad_(True), b0.to(dtype).clone().requires_grad_(True)
        opt = make([w, b])
        print("optimiser", name, NAMES[dtype])
        for step in range(1, 101):
            opt.zero_grad()
            F.mse_loss(F.linear(x.to(dtype), w, b), y.to(dtype)).backward()
            if name == "clip_value":
                torch.nn.utils.clip_grad_value_([w, b], 0.05)
            opt.step()
            if step in (1, 2, 10, 50, 100):
                emit("step %d" % step, torch.cat([w.reshape(-1), b]))
        if name == "asgd_mean":
            emit("mean", torch.cat([opt.state[w]["ax"].reshape(-1), opt.state[b]["ax"]]))

# ---- averages of SGD's iterates ----------------------------------------------------------------------------------------------------------------------
for name, multi in (("swa", None), ("ema", get_ema_multi_avg_fn(0.9))):
    net = torch.nn.Linear(3, 2).double()
    with torch.no_grad():
        net.weight.copy_(w0), net.bias.copy_(b0)
    opt, mean = O.SGD(net.parameters(), lr=0.3), AveragedModel(net, multi_avg_fn=multi)
    for step in range(20):
        opt.zero_grad()
        F.mse_loss(net(x), y).backward()
        opt.step()
        mean.update_parameters(net)
    emit("average %s" % name, torch.cat([mean.module.weight.reshape(-1), mean.module.bias]))

# ---- schedules ---------------------------------------------------------------------------------------------------------------------------------------
SCHEDULES = {
    "constant": lambda o: S.LambdaLR(o, lambda t: 1.0),
    "step": lambda o: S.StepLR(o, 7, 0.5),
    "multi_step": lambda o: S.MultiStepLR(o, [3, 11, 12, 30], 0.2),
    "exponential": lambda o: S.ExponentialLR(o, 0.9),
    "cosine": lambda o: S.CosineAnnealingLR(o, 39, eta_min=0.01),
    "restarts": lambda o: S.CosineAnnealingWarmRestarts(o, 5, T_mult=2, eta_min=0.02),
    "polynomial": lambda o: S.PolynomialLR(o, 25, 1.7),
    "one_cycle": lambda o: S.OneCycleLR(o, 0.4, total_steps=40),
    "one_cycle_linear": lambda o: S.OneCycleLR(o, 0.4, total_steps=40, anneal_strategy="linear", pct_start=0.5, div_factor=10, final_div_factor=100),
    "warmup_exponential": lambda o: S.SequentialLR(o, [S.LinearLR(o, 0.1, 1.0, 8), S.ExponentialLR(o, 0.9)], [8]),
}
for name, make in SCHEDULES.items():
    opt = O.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    schedule, rates = make(opt), []
    for t in range(40):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        if t < 39:
            schedule.step()
    emit("schedule %s" % name, torch.tensor(rates, dtype=torch.float64))

losses = [5, 4, 3, 3, 3, 3, 2.9999, 2.9998, 2.9997, 2.9996, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6]
opt = O.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
schedule, rates = S.ReduceLROnPlateau(opt, factor=0.5, patience=2, cooldown=1, threshold=1e-3, min_lr=0.02), []
for v in losses:
    schedule.step(v)
    rates.append(opt.param_groups[0]["lr"])
emit("losses", torch.tensor(losses, dtype=torch.float64))
emit("plateau", torch.tensor(rates, dtype=torch.float64))

# ---- L-BFGS -----------------------------------------------------------------------------------------------------------------------------------------
w, b = w0.clone().requires_grad_(True), b0.clone().requires_grad_(True)
opt = O.LBFGS([w, b], lr=0.5, max_iter=12, history_size=4, tolerance_grad=0, tolerance_change=0)


def closure():
    opt.zero_grad()
    loss = F.mse_loss(F.linear(x, w, b), y)
    loss.backward()
    return loss


opt.step(closure)
emit("lbfgs fixed", torch.cat([w.reshape(-1), b]))
print("made with torch", torch.__version__, file=sys.stderr)
