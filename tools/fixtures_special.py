"""Reference values of special functions with 40 digits (mpmath): name, arguments, value; tests/test_special.c reads them.

    python3 tools/fixtures_special.py > tests/fixtures/special.txt
"""
import mpmath as mp

mp.mp.dps = 40


def line(name, value, *args):
    print(name, *("%.17g" % float(a) for a in args), mp.nstr(value, 22, min_fixed=0, max_fixed=0))


xs = [1e-8, 0.015625, 0.1, 0.5, 0.75, 0.999, 1.0625, 1.4375, 1.5, 2.25, 3.7, 7.1, 11.03, 25.5, 99.75, 170.25, 1234.5]
for x in xs + [-0.5, -1.25, -3.7, -20.1]:
    x = mp.mpf(float(x))
    line("lgamma", mp.log(abs(mp.gamma(x))), x)
    if abs(x) < 170: line("gamma", mp.gamma(x), x)
    line("digamma", mp.digamma(x), x)
    for n in (1, 2, 5): line("polygamma%d" % n, mp.polygamma(n, x), x)
for a in [0.125, 0.5, 1, 2.5, 10, 30, 150.5]:
    for b in [0.25, 1, 3.5, 40]: line("lbeta", mp.log(mp.beta(mp.mpf(a), mp.mpf(b))), a, b)
    for f in [0.01, 0.3, 0.9, 1, 1.1, 2, 5]:
        x = mp.mpf(float(a * f))
        line("gammainc", mp.gammainc(mp.mpf(a), 0, x, regularized=True), a, x)
        line("gammaincc", mp.gammainc(mp.mpf(a), x, mp.inf, regularized=True), a, x)
        line("gammainc_da", mp.diff(lambda t: mp.gammainc(t, 0, x, regularized=True), mp.mpf(a)), a, x)
    for b in [0.5, 2, 17.25]:
        for x in [0.001, 0.2, 0.5, 0.875, 0.999]:
            line("betainc", mp.betainc(mp.mpf(a), mp.mpf(b), 0, mp.mpf(float(x)), regularized=True), a, b, x)
for x in [1e-10, 0.01, 0.3, 0.5, 0.7, 0.95, 0.99999, 1 - 2 ** -40, -0.2, -0.6, -0.999]: line("erfinv", mp.erfinv(mp.mpf(float(x))), x)
for x in [-3, -0.5, 0.1, 1, 2.5, 6, 15, 26]: line("erfc", mp.erfc(mp.mpf(x)), x)
for x in [0.01, 0.5, 1, 2.2, 5, 10.1, 30, 100.5]:
    x = mp.mpf(float(x))
    line("bessel_j0", mp.besselj(0, x), x)
    line("bessel_j1", mp.besselj(1, x), x)
    line("bessel_i0e", mp.besseli(0, x) * mp.exp(-x), x)
    line("bessel_i1e", mp.besseli(1, x) * mp.exp(-x), x)
for x in [1e-9, 0.01, 0.015, 0.016, 0.3, 1.5, 4.75]: line("sinc", mp.sincpi(mp.mpf(float(x))), x)
for x in [1e-6, 0.01, 1, 5, 50, 700]: line("softplus_inverse", mp.log(mp.expm1(mp.mpf(float(x)))), x)
