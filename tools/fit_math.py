#!/usr/bin/env python3
"""Fits the polynomials of src/kernels/cpu/simd_math.h and writes gelu_table.h (needs numpy and mpmath).

  tools/fit_math.py            prints coefficients, with the error before and after rounding them to f32
  tools/fit_math.py tables     writes src/kernels/cpu/gelu_table.h

Minimax fits by Lawson's iteratively reweighted least squares on Chebyshev points; coefficients are rounded to f32 one by one, lowest degree first,
and the others fitted again.
"""
import contextlib
import io
import sys

import numpy as np, mpmath as mp
mp.mp.prec=120
def hexf(c): return float(np.float32(c)).hex().replace('0000000p','p')+'f'
def fit(f, w, lo, hi, deg, fixed=0, N=400, lawson=60, rnd=True, name=''):
    """minimise max |w(x)*(p(x)-f(x))|, sequential rounding from lowest coefficient"""
    k=np.arange(N); x=(lo+hi)/2+(hi-lo)/2*np.cos(np.pi*(k+.5)/N)
    F=np.array([float(f(mp.mpf(float(t)))) for t in x]); W=np.array([float(w(mp.mpf(float(t)))) for t in x])
    sc=max(abs(lo),abs(hi)); 
    coefs=[]; G=F.copy()
    for d in range(deg+1):
        V=np.vander(x/sc,deg+1,increasing=True)[:,d:]
        lw=np.ones(N)/N; best=None
        for it in range(lawson if d==0 or rnd else 1):
            A=V*(W*np.sqrt(lw))[:,None]; b=G*W*np.sqrt(lw)
            c,*_=np.linalg.lstsq(A,b,rcond=None)
            e=np.abs(W*(V@c-G)); m=e.max()
            if best is None or m<best[0]: best=(m,c)
            lw=lw*(e+1e-3*m); lw/=lw.sum()
        m,c=best
        if d==0: m0=m
        if not rnd: coefs=[c[i]/sc**i for i in range(deg+1)]; break
        ci=float(np.float32(c[0]/sc**d)); coefs.append(ci); G=G-ci*x**d
    p=np.polyval(coefs[::-1],x); err=np.abs(W*(p-F)).max()
    print(f"/* {name} deg {deg} on [{lo:.4f},{hi:.4f}] err 2^{np.log2(m0):.2f}, rounded 2^{np.log2(err):.2f} */")
    print(', '.join(f"{np.float32(c):.9g}f" for c in coefs)); return coefs


def polynomials():
    e=mp.e; L=0.3475
    q=lambda r: (mp.expm1(r)-r)/r**2 if abs(r)>1e-9 else mp.mpf(.5)
    for d in (3,4,5): fit(q, lambda r: r, -L,L,d,name='expm1 q w=r')
    for d in (3,4,5): fit(q, lambda r: r*r, -L,L,d,name='exp q w=r2')
    H=float(mp.log(2))/32 # sigmoid: exp(-r) = 1 + r P(r), -H < r <= 0
    fit(lambda r: mp.expm1(-r)/r, lambda r: r*mp.exp(r), -H*1.0005,-1e-9,2,name='sigmoid P')
    l=lambda f: (mp.log1p(f)-f+f*f/2)/f**3 if abs(f)>1e-6 else mp.mpf(1)/3-f/4
    for d in (6,7,8): fit(l, lambda f: f**3/mp.log1p(f) if f!=0 else 0, -1/3-1e-3,1/3+1e-3,d,name='log P')
    s=lambda u: (mp.sin(mp.sqrt(u))/mp.sqrt(u)-1)/u if u>1e-12 else mp.mpf(-1)/6
    c=lambda u: (mp.cos(mp.sqrt(u))-1+u/2)/u**2 if u>1e-6 else mp.mpf(1)/24
    H=(np.pi/4)**2*1.005
    for d in (2,3): fit(s, lambda u: u, 0,H,d,name='sin S')
    for d in (2,3): fit(c, lambda u: u*u, 0,H,d,name='cos C')
    s2=lambda u: mp.sin(2*mp.pi*mp.sqrt(u))/mp.sqrt(u) if u>1e-12 else 2*mp.pi
    c2=lambda u: mp.cos(2*mp.pi*mp.sqrt(u))
    for d in (3,4): fit(s2, lambda u: 1/s2(u), 0,1/64,d,name='sin 2pi')
    for d in (3,4): fit(c2, lambda u: 1, 0,1/64,d,name='cos 2pi')
    er=lambda u: mp.erf(mp.sqrt(u))/mp.sqrt(u)-1 if u>1e-12 else 2/mp.sqrt(mp.pi)-1
    for d in (5,6,7): fit(er, lambda u: 1/(1+er(u)), 0,0.93**2,d,name='erf small')
    le=lambda t: mp.log(mp.erfc(t))/t
    for d in (7,8,9): fit(le, lambda t: t*mp.erfc(t)/mp.erf(t), .91,3.95,d,name='log erfc/t')
    # Phi(-a) = exp(-a^2/2) G(a)
    G=lambda a: mp.exp(a*a/2)*mp.erfc(a/mp.sqrt(2))/2
    for c in (0.3,0.35,0.4,0.5):
        g=lambda t,c=c: G((1/t-1)/c)/t
        for d in (6,7,8): fit(g, lambda t: 1/g(t), 1/(1+c*15.),1.0,d,name=f'G(t)/t c={c}')
    # log2(1+f)/f for pow etc
    le=lambda t: mp.log(mp.erfc(t))/t
    for d in (5,6): fit(le, lambda t: t*mp.erfc(t)/mp.erf(t), .91,3.95,d,name='log erfc/t')
    L=0.3475
    for d in (5,): fit(lambda r: mp.exp(r), lambda r: mp.exp(-r), -L,L,d,name='exp plain')
    # pow: log(1+f) = 2 atanh(s), s=f/(2+f): 2s + s^3 P(s^2), |s|<0.172
    p=lambda u: (2*mp.atanh(mp.sqrt(u))/mp.sqrt(u)-2)/u if u>1e-12 else mp.mpf(2)/3
    third=mp.mpf(float(np.float32(2/3))) # the product with it is exact; the constant term of the fit is what is left
    for d in (2,3,4): fit(lambda u: p(u)-third, lambda u: u/2, 0,(0.2002)**2,d,name='atanh')
    # atan on [0,1]: a + a^3 P(a^2)
    at=lambda u: (mp.atan(mp.sqrt(u))/mp.sqrt(u)-1)/u if u>1e-12 else -mp.mpf(1)/3
    for d in (6,7,8): fit(at, lambda u: u*mp.sqrt(u)/mp.atan(mp.sqrt(u)) if u>0 else 0, 0,1.0,d,name='atan')


f32=np.float32
w=lambda a: a*mp.erfc(a/mp.sqrt(2))/2
v=lambda a: mp.erfc(a/mp.sqrt(2))/2-a*mp.npdf(a)
def eval32(c,d):
    y=f32(c[-1])
    # emulate fma in double then round
    y=np.full(d.shape,f32(c[-1]),dtype=np.float32)
    for k in range(len(c)-2,-1,-1): y=(y.astype(np.float64)*d.astype(np.float64)+np.float64(f32(c[k]))).astype(np.float32)
    return y
def table(F,C,deg,name,floor):
    S=31/C; Sf=f32(S); T=[]; worst=0; worsta=0
    for i in range(32):
        lo=-.5 if i else 0.; hi=.5 if i<31 else 0.
        f=lambda d,i=i: F((mp.mpf(d)+i)/mp.mpf(float(Sf)))
        if i==0 or i==31:
            # force constant
            c0=f32(F(mp.mpf(0))) if i==0 else f32(0)
            g=lambda d,f=f,c0=c0: (f(d)-mp.mpf(float(c0)))/d if abs(d)>1e-9 else mp.diff(f,0)
            wt=(lambda d,f=f,c0=c0: d/(abs(f(d))+floor))
            if i==31: g=lambda d,f=f: f(d)/d if abs(d)>1e-3 else f(-1e-3)/(-1e-3)
            with contextlib.redirect_stdout(io.StringIO()): cc=fit(g,wt,lo if i==31 else 1e-7,hi if i==0 else -1e-3,deg-1,N=80,lawson=20)
            cc=[float(c0)]+list(cc)
        else:
            with contextlib.redirect_stdout(io.StringIO()): cc=fit(f,lambda d,f=f: 1/(abs(f(d))+floor),lo,hi,deg,N=80,lawson=20)
        T.append(cc)
        d=np.linspace(lo,hi,300).astype(np.float32); 
        ref=np.array([float(f(mp.mpf(float(t)))) for t in d]); y=eval32(cc,d)
        e=np.abs(y-ref)/(np.abs(ref)+floor); j=e.argmax()
        if i<31 and e.max()>worst: worst=e.max(); worsta=(i+d[j])/S
    print(f"/* {name}: C={C} S={Sf:.9g} rel err {worst:.3g} = {worst*2**24:.2f}*2^-24 at a={worsta:.3f}; at C: {float(F(mp.mpf(C))):.2g} */")
    return Sf,T


HEADER = '''/* GELU and its slope as piecewise polynomials for 32-entry vector lookups (made by tools/fit_math.py).
 *
 * For a = |x|: the interval is i = round(a S), the variable d = a S - i, |d| <= 1/2, and the value sum_k table[k][i] d^k.
 *   cj_gelu_table    w(a) = a Phi(-a)              S = CJ_GELU_TABLE_S, until a = 31 / S = 5.9
 *   cj_slope_table   v(a) = Phi(-a) - a phi(a)     S = CJ_SLOPE_TABLE_S, until a = 31 / S = 6.2
 * Beyond the last interval the value is 0 (true values there are below 2e-8).
 */
#ifndef CJ_KERNELS_CPU_GELU_TABLE_H
#define CJ_KERNELS_CPU_GELU_TABLE_H

'''


def tables():
    out=open('src/kernels/cpu/gelu_table.h','w')
    out.write(HEADER)
    for F,C,floor,nm,Nm in ((w,5.9,1e-3,'cj_gelu_table','CJ_GELU_TABLE_S'),(v,6.2,1e-1,'cj_slope_table','CJ_SLOPE_TABLE_S')):
        S,T=table(F,C,4,nm,floor)
        out.write(f"#define {Nm} {S:.9g}f\nstatic const float {nm}[5][32] = {{\n".replace(' 5f',' 5.0f'))
        for k in range(5):
            vals=[f"{f32(T[i][k]):.9g}" for i in range(32)]
            vals=[(x if ('.' in x or 'e' in x) else x+'.0')+'f' for x in vals]
            out.write("    {\n")
            for r in range(0,32,8): out.write("        "+', '.join(vals[r:r+8])+",\n")
            out.write("    },\n")
        out.write("};\n\n")
    out.write("#endif\n")


if __name__ == "__main__":
    tables() if sys.argv[1:] == ["tables"] else polynomials()
