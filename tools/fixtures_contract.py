#!/usr/bin/env python3
"""Reference values from PyTorch for contractions, norms and distances: python tools/fixtures_contract.py > tests/fixtures/contract.txt

Orders of norms are given in hundredths, 99999 and -99999 for the infinities.  At ties of the largest element PyTorch's cdist gives the gradient to one, here they share it;
there are no ties in the values used.
"""
import torch
import torch.nn.functional as F

from fixtures import *

EQUATIONS = [("bij,bjk->bik", (2, 3, 4), (2, 4, 2)), ("ii->i", (4, 4)), ("ii", (4, 4)), ("ij->ji", (2, 3)), ("ij->j", (3, 4)), ("i,i", (5,), (5,)),
             ("i,j->ij", (3,), (4,)), ("...ij,...jk->...ik", (2, 1, 3, 4), (3, 4, 2)), ("ba", (2, 3)), ("bhid,bhjd->bhij", (2, 2, 3, 4), (2, 2, 2, 4)),
             ("ab,bc,cd->ad", (2, 3), (3, 4), (4, 2)), ("iij,jk->ik", (3, 3, 2), (2, 4)), ("ab,ab->ab", (2, 3), (2, 3)), ("a...,a...->...", (3, 2, 2), (3, 2, 2)),
             ("abc,cd->", (2, 3, 2), (2, 4)), ("ab,cb->ca", (2, 3), (4, 3)), ("bn,anm,bm->ba", (2, 3), (5, 3, 4), (2, 4)), ("aB,Bc", (2, 3), (3, 2)),
             ("ab,bc->abc", (2, 3), (3, 4)), ("i...->...", (3, 2)), ("ij,jk", (3, 1), (4, 2)), ("...a,...a", (2, 3, 4), (4,))]
for k, (equation, *shapes) in enumerate(EQUATIONS):
    case("einsum", lambda *x, e=equation: torch.einsum(e, *x[:-1]), [rand(*s) for s in shapes], (k,))
case("tensordot", lambda a, b: torch.tensordot(a, b, ([1, 0], [0, 2])), [rand(2, 3, 4), rand(3, 5, 2)])
case("kron", torch.kron, [rand(2, 3), rand(3, 2)])
case("kron", torch.kron, [rand(3), rand(2, 1, 2)])

INF = 99999


def order(p):
    return inf if p == INF else -inf if p == -INF else p / 100


for p in (0, 50, 100, 150, 200, 300, -200, INF, -INF):
    case("norm", lambda x, p: torch.linalg.vector_norm(x, order(p)), [rand(3, 4)], (p,))
    case("norm_rows", lambda x, p, keep: torch.linalg.vector_norm(x, order(p), dim=1, keepdim=bool(keep)), [rand(3, 4)], (p, 1))
    case("norm_rows", lambda x, p, keep: torch.linalg.vector_norm(x, order(p), dim=1, keepdim=bool(keep)), [rand(2, 4, dtype=torch.float32)], (p, 0), hvp=False)
for p in (100, 200, 300):
    case("norm", lambda x, p: torch.linalg.vector_norm(x, order(p)), [t64(0, 0, 0)], (p,), hvp=False)
case("norm", lambda x, p: torch.linalg.vector_norm(x, order(p)), [t64(3e200, 4e200) / 1e200], (200,))
for p in (100, 150, 200, 300, INF):
    case("cdist", lambda a, b, p: torch.cdist(a, b, order(p)), [rand(3, 4), rand(5, 4)], (p,), hvp=p == 200)
    case("cdist", lambda a, b, p: torch.cdist(a, b, order(p)), [rand(2, 3, 2), rand(2, 4, 2)], (p,), hvp=False)
case("cdist", lambda a, b, p: torch.cdist(a, b, order(p)), [rand(2, 4), rand(27, 4)], (200,), hvp=False)
same = rand(3, 4)
case("cdist", lambda a, b, p: torch.cdist(a, b, order(p)), [same, same.clone()], (200,), hvp=False)
case("cosine_similarity", lambda a, b: F.cosine_similarity(a, b, dim=-1), [rand(3, 5), rand(3, 5)])
case("cosine_similarity", lambda a, b: F.cosine_similarity(a, b, dim=-1), [rand(5), rand(2, 5)])
case("cosine_similarity", lambda a, b: F.cosine_similarity(a, b, dim=-1), [t64(0, 0, 0), t64(1, 2, 3)], grad=False)
