/* The adaptive update rules for one number type: included by update_adaptive.c once for float and once for double, with
 *
 *   REAL    the type          R(name)    a name of its own          SQRT FABS    its functions
 *
 * Each is the loop over n elements of parameter p, gradient g and states m, v, w.  Formulas and their order are PyTorch's (torch.optim).
 */

/* What all rules begin with: g = scale g, then weight decay, into the gradient or (decoupled) into the parameter.  One of keep and decay does nothing. */
typedef struct R(opening) {
    REAL scale, keep, decay;
} R(opening);

CJ_INLINE R(opening) R(open)(const cj_update_opts *o)
{
    return (R(opening)){ (REAL)o->grad_scale, (REAL)(o->decoupled ? 1.0 - o->lr * o->weight_decay : 1.0),
                         (REAL)(o->decoupled ? 0.0 : o->weight_decay) };
}
CJ_INLINE REAL R(decayed)(const R(opening) * c, REAL *p, REAL g)
{
    *p *= c->keep;
    return g * c->scale + c->decay * *p;
}

/* m + weight (g - m), from the nearer end as PyTorch does. */
CJ_INLINE REAL R(lerp)(REAL m, REAL g, REAL weight, REAL rest, bool near) { return near ? m + weight * (g - m) : g - (g - m) * rest; }

CJ_INLINE REAL R(signum)(REAL x) { return (REAL)(x > 0) - (REAL)(x < 0); }

/* Adam whose second moment never falls: w = max(w, v). */
static void R(amsgrad)(const cj_update_opts *o, REAL *restrict p, const REAL *restrict g, REAL *restrict m, REAL *restrict v,
                       REAL *restrict w, int64_t n)
{
    const R(opening) c = R(open)(o);
    const REAL weight1 = (REAL)(1.0 - o->beta1), rest1 = (REAL)o->beta1, beta2 = (REAL)o->beta2, weight2 = (REAL)(1.0 - o->beta2),
               root2 = (REAL)sqrt(o->bias2), eps = (REAL)o->eps, step = (REAL)(o->lr / o->bias1);
    const bool near = 1.0 - o->beta1 < 0.5;
    for (int64_t i = 0; i < n; i++) {
        const REAL d = R(decayed)(&c, p + i, g[i]);
        m[i] = R(lerp)(m[i], d, weight1, rest1, near);
        v[i] = v[i] * beta2 + weight2 * d * d;
        w[i] = w[i] > v[i] ? w[i] : v[i];
        p[i] -= step * m[i] / (SQRT(w[i]) / root2 + eps);
    }
}

/* AdaGrad (Duchi, Hazan and Singer, 2011): m sums the squares.  o->lr is the decayed rate. */
static void R(adagrad)(const cj_update_opts *o, REAL *restrict p, const REAL *restrict g, REAL *restrict m, REAL *restrict v,
                       REAL *restrict w, int64_t n)
{
    const R(opening) c = R(open)(o);
    const REAL lr = (REAL)o->lr, eps = (REAL)o->eps;
    (void)v, (void)w;
    for (int64_t i = 0; i < n; i++) {
        const REAL d = R(decayed)(&c, p + i, g[i]);
        m[i] += d * d;
        p[i] -= lr * d / (SQRT(m[i]) + eps);
    }
}

/* RMSProp (Tieleman and Hinton, 2012), beta2 is PyTorch's alpha: m the mean of squares, then the momentum buffer if there is one, then the mean if centred. */
static void R(rmsprop)(const cj_update_opts *o, REAL *restrict p, const REAL *restrict g, REAL *restrict m, REAL *restrict v,
                       REAL *restrict w, int64_t n)
{
    const R(opening) c = R(open)(o);
    const REAL lr = (REAL)o->lr, eps = (REAL)o->eps, alpha = (REAL)o->beta2, weight = (REAL)(1.0 - o->beta2), momentum = (REAL)o->momentum;
    const bool near = 1.0 - o->beta2 < 0.5, has_momentum = o->momentum != 0.0;
    REAL *const buffer = has_momentum ? v : NULL, *const mean = !o->centred ? NULL : has_momentum ? w : v;
    for (int64_t i = 0; i < n; i++) {
        const REAL d = R(decayed)(&c, p + i, g[i]);
        REAL spread = m[i] = m[i] * alpha + weight * d * d;
        if (mean) {
            mean[i] = R(lerp)(mean[i], d, weight, alpha, near);
            spread = m[i] - mean[i] * mean[i];
            spread = spread > 0 ? spread : 0; /* rounding may leave it below */
        }
        const REAL root = SQRT(spread) + eps;
        if (buffer) {
            buffer[i] = buffer[i] * momentum + d / root;
            p[i] -= lr * buffer[i];
        } else {
            p[i] -= lr * d / root;
        }
    }
}

/* AdaMax (Kingma and Ba, 2015): v = max(beta2 v, |g| + eps). */
static void R(adamax)(const cj_update_opts *o, REAL *restrict p, const REAL *restrict g, REAL *restrict m, REAL *restrict v,
                      REAL *restrict w, int64_t n)
{
    const R(opening) c = R(open)(o);
    const REAL weight1 = (REAL)(1.0 - o->beta1), rest1 = (REAL)o->beta1, beta2 = (REAL)o->beta2, eps = (REAL)o->eps,
               step = (REAL)(o->lr / o->bias1);
    const bool near = 1.0 - o->beta1 < 0.5;
    (void)w;
    for (int64_t i = 0; i < n; i++) {
        const REAL d = R(decayed)(&c, p + i, g[i]), now = FABS(d) + eps, before = v[i] * beta2;
        m[i] = R(lerp)(m[i], d, weight1, rest1, near);
        v[i] = before > now ? before : now;
        p[i] -= step * m[i] / v[i];
    }
}

/* NAdam (Dozat, 2016): Adam with Nesterov's momentum; step_g and step_m hold the two rates. */
static void R(nadam)(const cj_update_opts *o, REAL *restrict p, const REAL *restrict g, REAL *restrict m, REAL *restrict v,
                     REAL *restrict w, int64_t n)
{
    const R(opening) c = R(open)(o);
    const REAL weight1 = (REAL)(1.0 - o->beta1), rest1 = (REAL)o->beta1, beta2 = (REAL)o->beta2, weight2 = (REAL)(1.0 - o->beta2),
               bias2 = (REAL)o->bias2, eps = (REAL)o->eps, step_g = (REAL)o->step_g, step_m = (REAL)o->step_m;
    const bool near = 1.0 - o->beta1 < 0.5;
    (void)w;
    for (int64_t i = 0; i < n; i++) {
        const REAL d = R(decayed)(&c, p + i, g[i]);
        m[i] = R(lerp)(m[i], d, weight1, rest1, near);
        v[i] = v[i] * beta2 + weight2 * d * d;
        const REAL root = SQRT(v[i] / bias2) + eps;
        p[i] = p[i] - step_g * d / root - step_m * m[i] / root;
    }
}

/* SignSGD (Bernstein and others, 2018); with momentum the sign is that of m = momentum m + (1 - momentum) g (Signum). */
static void R(sign)(const cj_update_opts *o, REAL *restrict p, const REAL *restrict g, REAL *restrict m, REAL *restrict v, REAL *restrict w,
                    int64_t n)
{
    const R(opening) c = R(open)(o);
    const REAL lr = (REAL)o->lr, momentum = (REAL)o->momentum, weight = (REAL)(1.0 - o->momentum);
    (void)v, (void)w;
    for (int64_t i = 0; i < n; i++) {
        REAL d = R(decayed)(&c, p + i, g[i]);
        if (m) d = m[i] = momentum * m[i] + weight * d;
        p[i] -= lr * R(signum)(d);
    }
}

/* Lion (Chen and others, 2023): the sign of beta1 m + (1 - beta1) g, then m = beta2 m + (1 - beta2) g; weight decay decoupled. */
static void R(lion)(const cj_update_opts *o, REAL *restrict p, const REAL *restrict g, REAL *restrict m, REAL *restrict v, REAL *restrict w,
                    int64_t n)
{
    const R(opening) c = R(open)(o);
    const REAL lr = (REAL)o->lr, beta1 = (REAL)o->beta1, weight1 = (REAL)(1.0 - o->beta1), beta2 = (REAL)o->beta2,
               weight2 = (REAL)(1.0 - o->beta2);
    (void)v, (void)w;
    for (int64_t i = 0; i < n; i++) {
        const REAL d = R(decayed)(&c, p + i, g[i]);
        p[i] -= lr * R(signum)(beta1 * m[i] + weight1 * d);
        m[i] = beta2 * m[i] + weight2 * d;
    }
}

#undef REAL
#undef R
#undef SQRT
#undef FABS
