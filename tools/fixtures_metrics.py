"""Fixtures for tests/test_metrics.c: scikit-learn's metrics of random scores with ties.

    python tools/fixtures_metrics.py [OUT]

A line each: a name, how many numbers, the numbers.
"""
import sys

import numpy as np
from sklearn import metrics as m

out = sys.argv[1] if len(sys.argv) > 1 else "tests/fixtures"
r = np.random.default_rng(5)
n, C = 60, 5
lines = []


def put(name, values):
    v = np.asarray(values, dtype=np.float64).ravel()
    lines.append(f"{name} {len(v)} " + " ".join(repr(float(x)) for x in v))


y = r.integers(0, C - 1, n)  # the last class never occurs
scores = np.round(r.normal(size=(n, C)), 1)
scores[np.arange(n), y] += 1
p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
guess = scores.argmax(1)
put("target", y)
put("scores", scores)
put("accuracy", [m.accuracy_score(y, guess)])
put("confusion", m.confusion_matrix(y, guess, labels=range(C)))
exact = r.permuted(np.tile(np.arange(C, dtype=float), (n, 1)), axis=1)  # without ties, whose order scikit-learn leaves open
put("ranks", exact)
put("top", [m.top_k_accuracy_score(y, exact, k=k, labels=range(C)) for k in range(1, C)])
for mean in ("macro", "weighted", "micro"):
    put(mean, m.precision_recall_fscore_support(y, guess, labels=range(C), average=mean, zero_division=0)[:3])
put("classes", np.array(m.precision_recall_fscore_support(y, guess, labels=range(C), zero_division=0)).T)
put("log_loss", [m.log_loss(y, p, labels=range(C))])

two = r.integers(0, 2, n)
score = np.round(r.normal(size=n) + two, 1)
put("two", two)
put("score", score)
fpr, tpr, at = m.roc_curve(two, score, drop_intermediate=False)
put("roc_x", fpr)
put("roc_y", tpr)
put("roc_at", at)
put("auc", [m.roc_auc_score(two, score)])
precision, recall, at = m.precision_recall_curve(two, score)
put("pr_x", recall[::-1])
put("pr_y", precision[::-1])
put("average_precision", [m.average_precision_score(two, score)])

a, b = r.normal(size=n), r.normal(size=n)
put("prediction", a)
put("value", b)
put("regression", [m.mean_squared_error(b, a), m.root_mean_squared_error(b, a), m.mean_absolute_error(b, a), m.r2_score(b, a)])

confidence, right = p.max(1), p.argmax(1) == y  # Naeini et al. 2015, with NumPy's histogram of the 10 bins (k/10, (k+1)/10]
edges = np.linspace(0, 1, 11)
which = np.digitize(confidence, edges, right=True) - 1
put("calibration", [sum(abs(right[which == k].mean() - confidence[which == k].mean()) * (which == k).mean() for k in range(10) if (which == k).any())])
with open(f"{out}/metrics.txt", "w") as f:
    f.write("\n".join(lines) + "\n")
