#!/usr/bin/env python3
"""Coefficients from scikit-learn for the zoo's linear models: python tools/fixtures_linear.py > tests/fixtures/linear.txt

Rows x [40, 4] and targets come from formulas that the test has too; a line is a model, its setting, then weights and biases.
"""
import numpy as np
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, PoissonRegressor, Ridge

n, p = 40, 4
i, j = np.arange(n)[:, None], np.arange(p)[None]
x = ((i * (2 * j + 3) + j * 5) % (11 + j)) / 4.0 - 1.2
value = 2 * x[:, 0] - x[:, 1] + 0.3 * x[:, 2] + ((np.arange(n) * 7) % 5 - 2) / 3 + 1
classes = ((np.arange(n) * 5 + np.floor(4 * x[:, 0] + 8)) % 3).astype(int)
two = (value + ((np.arange(n) * 3) % 7 - 3) > 1).astype(int)
counts = np.floor(np.exp(0.4 * x[:, 0] - 0.2 * x[:, 3]) + (np.arange(n) * 3) % 4)


def row(name, setting, w, b):
    print(name, setting, *("%.12g" % v for v in np.concatenate((np.ravel(w), np.ravel(b)))))


tight = {"tol": 1e-12, "max_iter": 1000000}
m = LinearRegression().fit(x, value)
row("linear", "-", m.coef_, m.intercept_)
for a in (0.5, 10):
    m = Ridge(alpha=a).fit(x, value)
    row("ridge", f"alpha={a}", m.coef_, m.intercept_)
for a in (0.05, 0.5):
    m = Lasso(alpha=a, **tight).fit(x, value)
    row("lasso", f"alpha={a}", m.coef_, m.intercept_)
m = LogisticRegression(C=0.5, **tight).fit(x, two)
row("logistic", "l2=2", m.coef_, m.intercept_)
m = LogisticRegression(C=1, **tight).fit(x, classes)
row("softmax", "l2=1", m.coef_, m.intercept_)
m = PoissonRegressor(alpha=0.1, **tight).fit(x, counts)
row("glm", "alpha=0.1", m.coef_, m.intercept_)
