"""Reference values of special functions with 40 digits (mpmath): name, arguments, value and, where a function passes through zero away from 0, the change of the value when its
most sensitive argument moves by its last place (of f64 and of f32); tests/test_special.c reads them.

    python3 tools/fixtures_special.py > tests/fixtures/special.txt

Arguments are f32 numbers, so that both types are asked the same question, and f64 numbers that are not.
"""
import math
import random
import struct

import mpmath as mp

mp.mp.dps = 40
random.seed(4)


def f32(x): return struct.unpack("f", struct.pack("f", x))[0]
def ulp32(x): return mp.mpf(2) ** (math.frexp(float(x))[1] - 24)


def line(name, value, *args, slopes=()):
    """slopes: partial derivatives by argument, of a function with zeros; they count where the value is below an eighth of what they make of the argument."""
    text = [name] + ["%.17g" % float(a) for a in args] + [mp.nstr(value, 22, min_fixed=0, max_fixed=0)]
    if any(abs(d * a) > 8 * abs(value) for d, a in zip(slopes, args)):
        moved = [max(abs(d) * unit(a) for d, a in zip(slopes, args)) for unit in (lambda a: mp.mpf(math.ulp(float(a))), ulp32)]
        text += ["|"] + [mp.nstr(m, 6, min_fixed=0, max_fixed=0) for m in moved]
    print(*text)


def spread(low, high, n, log=True):
    """n numbers between, evenly by logarithm, half of them f32 numbers."""
    out = []
    for i in range(n):
        t = (i + random.random()) / n
        x = low * (high / low) ** t if log else low + (high - low) * t
        out.append(f32(x) if i % 2 else float(x))
    return out


m = mp.mpf
positive = [1e-8, 0.015625, 0.1, 0.5, 0.75, 0.999, 1.0625, 1.4375, 1.5, 2.25, 3.7, 7.1, 11.03, 25.5, 99.75, 170.25, 1234.5] + spread(1e-3, 500, 40)
negative = [-0.5, -1.25, -3.7, -20.1, f32(-2.3), f32(-7.45)]
for x in positive + negative + [f32(1.4616), 1.46163, f32(1.001), f32(2.002), 0.9999]:
    X = m(x)
    line("lgamma", mp.log(abs(mp.gamma(X))), x, slopes=[mp.digamma(X)])
    if abs(x) < 170: line("gamma", mp.gamma(X), x)
    line("digamma", mp.digamma(X), x, slopes=[mp.polygamma(1, X)])
    for n in (1, 2, 3, 5): line("polygamma%d" % n, mp.polygamma(n, X), x, slopes=[mp.polygamma(n + 1, X)] if x < 0 else ())
shapes = [0.125, 0.5, 1, 2.5, 10, 30, 150.5, f32(0.7), f32(3.3), 400.25]
for a in shapes:
    A = m(a)
    for b in [0.25, 1, 3.5, 40, 1000, f32(0.6)]:
        B = m(b)
        both = mp.digamma(A + B)
        line("lbeta", mp.log(mp.beta(A, B)), a, b, slopes=[mp.digamma(A) - both, mp.digamma(B) - both])
        if mp.beta(A, B) > 1e-290: line("beta", mp.beta(A, B), a, b)
    for f in [0.01, 0.3, 0.9, 1, 1.1, 2, 5]:
        x = f32(a * f)
        X = m(x)
        line("gammainc", mp.gammainc(A, 0, X, regularized=True), a, x)
        upper = mp.gammainc(A, X, mp.inf, regularized=True)
        if upper > 1e-290: line("gammaincc", upper, a, x)
        line("gammainc_da", mp.diff(lambda t: mp.gammainc(t, 0, X, regularized=True), A), a, x)
    for b in [0.5, 2, 17.25]:
        for x in [f32(0.001), f32(0.2), 0.5, 0.875, f32(0.999)]:
            v = mp.betainc(A, m(b), 0, m(x), regularized=True)
            if v > 1e-290: line("betainc", v, a, b, x)


def inverse(f, density, low, high, target, start):
    """x with f(x) = target by bisection, then Newton steps."""
    lo, hi = m(low), m(high)
    for _ in range(60):
        mid = (lo + hi) / 2 if lo <= 0 or hi / lo < 4 else mp.sqrt(lo * hi)
        if f(mid) < target: lo = mid
        else: hi = mid
    x = (lo + hi) / 2
    for _ in range(6): x -= (f(x) - target) / density(x)
    assert abs(f(x) / target - 1) < m(10) ** -32
    return x


for a in [0.5, 1, 2.5, 10, 150.5, f32(0.7), f32(3.3)]:
    A = m(a)
    for p in [f32(1e-4), 0.03125, f32(0.3), 0.5, f32(0.77), 0.96875, f32(0.9999)]:
        P = m(p)
        line("gammaincinv", inverse(lambda x: mp.gammainc(A, 0, x, regularized=True), lambda x: x ** (A - 1) * mp.exp(-x) / mp.gamma(A), m(10) ** -40, 10 * a + 60, P, a), a, p)
        for b in [0.5, 2, 17.25]:
            B = m(b)
            line("betaincinv", inverse(lambda x: mp.betainc(A, B, 0, x, regularized=True), lambda x: x ** (A - 1) * (1 - x) ** (B - 1) / mp.beta(A, B), m(10) ** -40, 1, P, 0.5), a, b, p)
for v in [0.5, 1, 2.5, 10, 150.5, f32(3.3)]:
    V = m(v)
    for p in [f32(1e-4), 0.03125, f32(0.3), f32(0.499), f32(0.77), 0.96875, f32(0.9999)]:
        tail = 2 * (m(p) if p < 0.5 else 1 - m(p))
        x = inverse(lambda t: mp.betainc(V / 2, m("0.5"), 0, t, regularized=True), lambda t: t ** (V / 2 - 1) / mp.sqrt(1 - t) / mp.beta(V / 2, m("0.5")), m(10) ** -40, 1 - m(10) ** -12, tail, 0.5)
        z = mp.sqrt(V * (1 - x) / x)
        density = mp.gamma((V + 1) / 2) / mp.gamma(V / 2) / mp.sqrt(V * mp.pi) * (1 + z * z / V) ** (-(V + 1) / 2)
        line("stdtrit", -z if p < 0.5 else z, v, p, slopes=[0, 1 / density] if abs(p - 0.5) < 0.1 else ())
for x in [1e-10, 0.01, 0.3, 0.5, 0.7, 0.95, 0.99999, 1 - 2 ** -40, -0.2, -0.6, -0.999] + [f32(v) for v in (1e-6, 0.125, 0.49, 0.51, 0.9, 0.9999, -0.75)] + spread(1e-4, 0.9999, 24):
    line("erfinv", mp.erfinv(m(x)), x)
for x in [-3, -0.5, 0.1, 1, 2.5, 6, 9, 15, 26, -5.5] + spread(1e-3, 25, 24):
    line("erfc", mp.erfc(m(x)), x)
    line("erf", mp.erf(m(x)), x)
for x in [0, -1, 0.5, 2.5, -5, -9.5, -20, -37, 6] + spread(1e-3, 8, 12) + [-v for v in spread(0.01, 35, 24)]:
    line("ndtr", mp.ncdf(m(x)), x)
for p in [0.5, 0.25, 1e-300, 1e-20, 0.1, 0.9, 0.999999] + spread(1e-18, 0.5, 20) + spread(0.5, 0.99999, 12, log=False):
    P = m(p)
    z = mp.sqrt(2) * (mp.erfinv(2 * P - 1) if p > 1e-5 else mp.findroot(lambda t: mp.log(mp.ncdf(mp.sqrt(2) * t)) - mp.log(P), -mp.sqrt(-mp.log(P)), tol=m(10) ** -70))
    line("ndtri", z, p, slopes=[1 / mp.npdf(z)] if abs(p - 0.5) < 0.1 else ())
for x in [0.01, 0.5, 1, 2.2, 5, 10.1, 30, 100.5, f32(2.4048), 2.40482, f32(3.8317), f32(5.5200), 8.6537, -3.3] + spread(1e-3, 200, 50):
    X = m(x)
    j0, j1 = mp.besselj(0, X), mp.besselj(1, X)
    line("bessel_j0", j0, x, slopes=[j1])
    line("bessel_j1", j1, x, slopes=[j0 - j1 / X])
    line("bessel_i0e", mp.besseli(0, X) * mp.exp(-abs(X)), x)
    line("bessel_i1e", mp.besseli(1, X) * mp.exp(-abs(X)), x)
for x in [1e-9, 0.01, 0.015, 0.016, 0.3, 1.5, 4.75, -2.3, f32(1.001), f32(0.9999)] + spread(1e-3, 50, 40):
    X = m(x)
    line("sinc", mp.sincpi(X), x, slopes=[(mp.cos(mp.pi * X) - mp.sincpi(X)) / X])
for x in [1e-6, 0.01, 1, 5, 50, 700, f32(0.6931), 0.69315, 0.7] + spread(1e-5, 80, 40):
    line("softplus_inverse", mp.log(mp.expm1(m(x))), x, slopes=[1 / (1 - mp.exp(-m(x)))])
for x in [1e-12, 1e-5, 0.25, 1, 1e6, -0.5, -0.999] + spread(1e-6, 1e4, 24) + [-v for v in spread(1e-6, 0.9999, 24)]:
    line("log1p", mp.log1p(m(x)), x)
for x in [1e-12, 1e-5, 0.25, 1, 80, -0.5, -1e-7, -40] + spread(1e-6, 85, 24) + [-v for v in spread(1e-6, 30, 24)]:
    line("expm1", mp.expm1(m(x)), x)
    line("softplus", mp.log1p(mp.exp(m(x))), x)
    line("log_sigmoid", -mp.log1p(mp.exp(-m(x))), x)
for a, b in [(0.5, 0.25), (-3, 4), (100, 100), (-50, -60), (-1, -0.5), (f32(-0.7), f32(-0.69))] + list(zip(spread(0.01, 80, 20), spread(0.01, 80, 20))) + [(-x, -y) for x, y in zip(spread(0.01, 9, 20), spread(0.01, 9, 20))]:
    A, B = m(a), m(b)
    s = mp.log(mp.exp(A) + mp.exp(B))
    line("logaddexp", s, a, b, slopes=[mp.exp(A - s), mp.exp(B - s)])
    line("logsumexp", s, a, b, slopes=[mp.exp(A - s), mp.exp(B - s)])
for x, y in [(0.5, 2), (3, 0.9990234375), (-2.5, 1e-5), (7, 100)] + list(zip(spread(0.01, 50, 12), spread(0.01, 50, 12))):
    line("xlogy", m(x) * mp.log(m(y)), x, y)
for v in [0.5, 1, 2.5, 10, 150.5, f32(3.3)]:
    for z in [-30, f32(-3.3), -0.625, f32(-0.01), 0.125, 1, f32(2.7)]:
        tail = mp.betainc(m(v) / 2, m("0.5"), 0, m(v) / (m(v) + m(z) ** 2), regularized=True) / 2
        line("stdtr", tail if z < 0 else 1 - tail, v, z)
# Moments of scores (src/math/special_moments.h): C_1, C_10 and C_01 are first derivatives of the incomplete integrals, the others follow from second ones.
# Digits enough for those that are the rest of 1 - 1.
mp.mp.dps = 120
for a in [0.125, 1, 2.5, 30, 150.5, f32(3.3)]:
    A = m(a)
    for f in [0.01, 0.3, 1, 1.1, 2]:
        x = f32(a * f)
        p = lambda t: mp.gammainc(t, 0, m(x), regularized=True)
        line("gammainc_moment2", mp.diff(p, A, 2) + mp.polygamma(1, A) * p(A), a, x)
    for b in [0.5, 2, 17.25]:
        B = m(b)
        both = mp.polygamma(1, A + B)
        for x in [f32(0.001), f32(0.2), 0.5, 0.875, f32(0.999)]:
            p = lambda s, t: mp.betainc(s, t, 0, m(x), regularized=True)
            d = lambda i, j: mp.diff(p, (A, B), (i, j))
            whole = p(A, B)
            if whole < 1e-30: continue
            line("betainc_moment10", d(1, 0), a, b, x)
            line("betainc_moment01", d(0, 1), a, b, x)
            line("betainc_moment20", d(2, 0) + (mp.polygamma(1, A) - both) * whole, a, b, x)
            line("betainc_moment11", d(1, 1) - both * whole, a, b, x)
            line("betainc_moment02", d(0, 2) + (mp.polygamma(1, B) - both) * whole, a, b, x)
