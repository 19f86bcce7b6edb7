#!/usr/bin/env python3
"""Reference values from PyTorch for the losses: python tools/fixtures_losses.py > tests/fixtures/losses.txt

Arguments are whole numbers: the reduction (mean, sum, none), then parameters in hundredths.  Where PyTorch has no derivative for the target, the target is made
of whole numbers or booleans, which have none here either.
"""
import torch
import torch.nn.functional as F

from fixtures import *

RED = ["mean", "sum", "none"]
signs = torch.tensor([[1, -1, 1], [-1, -1, 1]])
wide = t64(-1e4, -100, 0, 100, 1e4)

for r in (0, 1, 2):
    case("squared_loss", lambda x, t, r: F.mse_loss(x, t, reduction=RED[r]) / 2, [rand(2, 3), rand(2, 3)], (r,))
    for d in (100, 50):
        case("huber_loss", lambda x, t, r, d: F.huber_loss(x, t, reduction=RED[r], delta=d / 100), [rand(2, 3), rand(2, 3)], (r, d))
        case("smooth_l1_loss", lambda x, t, r, b: F.smooth_l1_loss(x, t, reduction=RED[r], beta=b / 100), [rand(2, 3), rand(2, 3)], (r, d))
    case("soft_margin_loss", lambda x, t, r: F.soft_margin_loss(x, t.to(x.dtype), reduction=RED[r]), [rand(2, 3), signs], (r,))
    for m in (100, 50):
        case("hinge_embedding_loss", lambda x, t, r, m: F.hinge_embedding_loss(x, t.to(x.dtype), margin=m / 100, reduction=RED[r]),
             [rand(2, 3), signs], (r, m))
        case("margin_ranking_loss", lambda a, b, t, r, m: F.margin_ranking_loss(a, b, t.to(a.dtype), margin=m / 100, reduction=RED[r]),
             [rand(2, 3), rand(2, 3), signs], (r, m))
        case("cosine_embedding_loss", lambda a, b, t, r, m: F.cosine_embedding_loss(a, b, t, margin=m / 1000, reduction=RED[r]),
             [rand(5, 4), rand(5, 4), ints(1, -1, -1, 1, -1)], (r, m))
        for p in (1, 2):
            case("multi_margin_loss", lambda x, t, r, m, p: F.multi_margin_loss(x, t, p=p, margin=m / 100, reduction=RED[r]),
                 [rand(3, 4), ints(1, 0, 3)], (r, m, p), hvp=False)
    weights = t64(0.5, 2, 1, 0.25)
    case("multi_margin_weighted", lambda x, t, w, r: F.multi_margin_loss(x, t, weight=w.detach(), reduction=RED[r]),
         [rand(3, 4), ints(1, 0, 3), weights], (r,), hvp=False, grad=False)
    case("multilabel_margin_loss", lambda x, t, r: F.multilabel_margin_loss(x, t, reduction=RED[r]),
         [rand(3, 4), torch.tensor([[3, 0, -1, 1], [-1, 2, 2, 2], [0, 1, 2, 3]])], (r,), hvp=False)
    case("multilabel_soft_margin_loss", lambda x, t, r: F.multilabel_soft_margin_loss(x, t.to(x.dtype), reduction=RED[r]),
         [rand(2, 3), torch.tensor([[True, False, True], [False, False, True]])], (r,))
    case("multilabel_soft_margin_weighted", lambda x, t, w, r: F.multilabel_soft_margin_loss(x, t.to(x.dtype), weight=w, reduction=RED[r]),
         [rand(2, 3), torch.tensor([[True, False, True], [False, False, True]]), t64(0.5, 2, 1)], (r,))
    for log_target in (0, 1):
        case("kl_div", lambda x, t, r, l: F.kl_div(x, t, reduction=RED[r], log_target=bool(l)), [rand(2, 3), rand(2, 3, low=0.1, high=1)], (r, log_target))
    case("kl_div", lambda x, t, r, l: F.kl_div(x, t.to(x.dtype), reduction=RED[r]), [rand(2, 3), torch.tensor([[1, 0, 0], [0, 0, 1]])], (r, 0))
    for smooth in (0, 30):
        case("soft_cross_entropy", lambda x, t, r, s: F.cross_entropy(x, t, reduction=RED[r], label_smoothing=s / 100),
             [rand(3, 4), torch.softmax(rand(3, 4), -1)], (r, smooth))
        case("cross_entropy_weighted", lambda x, t, r, s: F.cross_entropy(x, t, weight=t64(0.5, 2, 1.25), reduction=RED[r], label_smoothing=s / 100),
             [rand(4, 3), ints(1, 2, -100, 0)], (r, smooth))
    case("nll_weighted", lambda x, t, r: F.nll_loss(x, t, weight=t64(0.5, 2, 1.25), reduction=RED[r]), [rand(4, 3), ints(1, 2, -100, 0)], (r,))
    case("bce_weighted", lambda x, t, r: F.binary_cross_entropy_with_logits(x, t.to(x.dtype), weight=t64(0.5, 2, 1.25), pos_weight=t64(3, 1, 0.2), reduction=RED[r]),
         [rand(2, 3), signs > 0], (r,))
    case("bce_positive", lambda x, t, r: F.binary_cross_entropy_with_logits(x, t, pos_weight=t64(3, 1, 0.2), reduction=RED[r]),
         [rand(2, 3), rand(2, 3, low=0, high=1)], (r,))
    case("bce_loss_weighted", lambda x, t, r: F.binary_cross_entropy(x, t.to(x.dtype), weight=t64(0.5, 2, 1.25), reduction=RED[r]),
         [rand(2, 3, low=0.1, high=0.9), signs > 0], (r,))
    for swap, p in ((0, 2), (1, 2), (0, 1), (1, 3)):
        case("triplet_margin_loss", lambda a, b, c, r, s, p: F.triplet_margin_loss(a, b, c, reduction=RED[r], swap=bool(s), p=p),
             [rand(4, 3), rand(4, 3), rand(4, 3)], (r, swap, p))
    for full in (0, 1):
        case("gaussian_nll_loss", lambda x, t, v, r, f: F.gaussian_nll_loss(x, t, v, full=bool(f), reduction=RED[r]),
             [rand(2, 3), rand(2, 3), rand(2, 3, low=0.2, high=2)], (r, full))
        for rate in (0, 1):
            case("poisson_nll_loss", lambda x, t, r, rate, f: F.poisson_nll_loss(x, t.to(x.dtype), log_input=not rate, full=bool(f), reduction=RED[r]),
                 [rand(2, 3, low=0.1, high=2), torch.tensor([[0, 1, 2], [3, 7, 1]])], (r, rate, full))
    case("gaussian_nll_loss", lambda x, t, v, r, f: F.gaussian_nll_loss(x, t, v, full=bool(f), reduction=RED[r]),
         [rand(2, 3), rand(2, 3), rand(2, 1, low=0.2, high=2)], (r, 0))
case("kl_div_batch", lambda x, t: F.kl_div(x, t, reduction="batchmean"), [rand(4, 3), rand(4, 3, low=0.1, high=1)])
# far out: values and gradients
ones = ints(1, -1, 1, -1, -1)
case("soft_margin_loss", lambda x, t, r: F.soft_margin_loss(x, t.to(x.dtype), reduction=RED[r]), [wide, ones], (2,), grad=False)
case("huber_loss", lambda x, t, r, d: F.huber_loss(x, t, reduction=RED[r], delta=d / 100), [wide, -wide], (2, 100), hvp=False)
case("smooth_l1_loss", lambda x, t, r, b: F.smooth_l1_loss(x, t, reduction=RED[r], beta=b / 100), [wide, -wide], (2, 0), hvp=False)
case("bce_positive", lambda x, t, r: F.binary_cross_entropy_with_logits(x, t, pos_weight=t64(3, 1, 0.2), reduction=RED[r]),
     [t64(-1e4, 0, 1e4).expand(2, 3).contiguous(), t64(1, 0.5, 0).expand(2, 3).contiguous()], (2,), hvp=False)
case("soft_cross_entropy", lambda x, t, r, s: F.cross_entropy(x, t, reduction=RED[r]), [t64(-1e4, 0, 1e4).expand(2, 3).contiguous(), torch.softmax(rand(2, 3), -1)],
     (2, 0), hvp=False)
