/* Operators on random layouts against their definitions, one element at a time.
 *
 * Operands are views that somebody could make: permuted, sliced with steps forwards and backwards, expanded, of up to five dimensions, sizes 0 and 1 included.
 * The values are small integers, so every sum is exact and nothing is compared with a tolerance.  cj_at reads a view by its strides alone, without a kernel.
 */
#include "support.h"

enum { TURNS = 600, MOST = 5 };

static uint64_t random_state = 20261115;
static int64_t below(int64_t n)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int64_t)((z ^ z >> 31) % (uint64_t)n);
}

static const cj_dtype dtypes[] = { CJ_F32, CJ_F64, CJ_I64, CJ_I32 };
static cj_ctx *c;

/* A view of this shape on some larger tensor. */
static cj_tensor *view(const cj_shape *shape, cj_dtype dtype)
{
    cj_shape whole = { .ndim = shape->ndim };
    int order[MOST], back[MOST];
    int64_t start[MOST], step[MOST];
    bool expanded[MOST];
    for (int d = 0; d < shape->ndim; d++) order[d] = d;
    if (below(2))
        for (int d = shape->ndim - 1; d > 0; d--) {
            int k = (int)below(d + 1), swap = order[d];
            order[d] = order[k], order[k] = swap;
        }
    for (int d = 0; d < shape->ndim; d++) back[order[d]] = d;
    for (int d = 0; d < shape->ndim; d++) { /* axis d of the whole becomes axis order[d] of the view */
        int64_t n = shape->dim[order[d]];
        expanded[d] = below(8) == 0;
        step[d] = below(3) ? 1 : 1 + below(3);
        start[d] = below(3) ? 0 : below(3);
        whole.dim[d] = expanded[d] ? 1 : start[d] + (n ? (n - 1) * step[d] + 1 : 0) + (below(3) ? 0 : below(2));
        if (below(6) == 0) step[d] = -step[d];
    }
    cj_tensor *t = cj_cast(cj_randint(c, -9, 10, whole), dtype);
    cj_axes axes = { .n = shape->ndim };
    for (int d = 0; d < shape->ndim; d++) axes.axis[d] = back[d];
    cj_shape full = { .ndim = shape->ndim };
    for (int d = 0; d < shape->ndim; d++) {
        int64_t n = shape->dim[order[d]];
        full.dim[d] = n;
        if (expanded[d]) continue;
        if (step[d] > 0) t = cj_slice(t, d, start[d], n ? start[d] + (n - 1) * step[d] + 1 : start[d], step[d]);
        else t = n ? cj_slice(cj_slice(t, d, start[d], CJ_END, 1), d, (n - 1) * -step[d], CJ_END, step[d]) : cj_slice(t, d, 0, 0, 1);
    }
    t = cj_expand(t, full);
    if (shape->ndim) t = cj_permute(t, axes);
    assert_ok(c);
    assert_int_equal(cj_ndim(t), shape->ndim);
    for (int d = 0; d < shape->ndim; d++) assert_int_equal(cj_size(t, d), shape->dim[d]);
    return t;
}

static cj_shape random_shape(int least, int most)
{
    cj_shape s = { .ndim = least + (int)below(most - least + 1) };
    int large = (int)below(MOST); /* one axis may be longer than a vector */
    for (int d = 0; d < s.ndim; d++) s.dim[d] = below(12) == 0 ? 0 : d == large ? 1 + below(70) : 1 + below(4);
    return s;
}

/* The next index of a shape; false after the last. Start with zeros. */
static bool next(const cj_shape *s, int64_t *index)
{
    for (int d = s->ndim - 1; d >= 0; d--) {
        if (++index[d] < s->dim[d]) return true;
        index[d] = 0;
    }
    return false;
}
static bool is_empty(const cj_shape *s)
{
    for (int d = 0; d < s->ndim; d++)
        if (s->dim[d] == 0) return true;
    return false;
}
#define EACH(index, shape)                                                                                                                 \
    for (int64_t index[CJ_MAX_DIMS] = { 0 }, more_##index = !is_empty(&(shape)); more_##index; more_##index = next(&(shape), index))

static void assert_shape(cj_tensor *t, const cj_shape *s)
{
    assert_ok(c);
    assert_int_equal(cj_ndim(t), s->ndim);
    for (int d = 0; d < s->ndim; d++) assert_int_equal(cj_size(t, d), s->dim[d]);
}

/* ---- elementwise: broadcasting --------------------------------------------------------------------------------------------------------------- */

/* The element of t that the broadcast index means. */
static double broadcast_at(cj_tensor *t, const cj_shape *s, const int64_t *index)
{
    int64_t own[CJ_MAX_DIMS];
    int lead = s->ndim - cj_ndim(t);
    for (int d = 0; d < cj_ndim(t); d++) own[d] = cj_size(t, d) == 1 ? 0 : index[lead + d];
    return cj_at(t, own);
}

static void elementwise(void **state)
{
    (void)state;
    for (int turn = 0; turn < TURNS; turn++) {
        cj_scope scope = cj_scope_open(c);
        cj_shape s = random_shape(0, MOST), part[3];
        cj_tensor *x[3];
        cj_dtype dtype = dtypes[below(4)];
        for (int k = 0; k < 3; k++) {
            part[k] = s;
            if (k) { /* fewer leading axes, and axes of one */
                int drop = below(3) ? 0 : (int)below(s.ndim + 1);
                part[k].ndim = s.ndim - drop;
                for (int d = 0; d < part[k].ndim; d++) part[k].dim[d] = below(4) ? s.dim[d + drop] : 1;
            }
            x[k] = view(&part[k], dtype);
        }
        cj_tensor *sum = cj_add(x[0], x[1]), *difference = cj_sub(x[1], x[0]), *product = cj_mul(x[0], x[2]), *less = cj_lt(x[0], x[1]),
                  *most = cj_maximum(x[2], x[0]), *chosen = cj_where(cj_ge(x[0], x[1]), x[0], x[2]);
        assert_shape(sum, &s);
        assert_shape(chosen, &s);
        EACH(i, s)
        {
            double a = cj_at(x[0], i), b = broadcast_at(x[1], &s, i), d = broadcast_at(x[2], &s, i);
            assert_true(cj_at(sum, i) == a + b);
            assert_true(cj_at(difference, i) == b - a);
            assert_true(cj_at(product, i) == a * d);
            assert_true(cj_at(less, i) == (a < b));
            assert_true(cj_at(most, i) == fmax(a, d));
            assert_true(cj_at(chosen, i) == (a >= b ? a : d));
        }
        cj_scope_close(scope);
    }
}

/* Integer arithmetic at its borders, for every pair of small numbers. */
static void integers(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        cj_dtype dtype = t ? CJ_I32 : CJ_I64;
        cj_tensor *a = cj_reshape(cj_arange(c, -6, 7, 1, dtype), CJ_SHAPE(13, 1)), *b = cj_arange(c, -6, 7, 1, dtype);
        cj_tensor *power = cj_pow(a, b), *nonzero = cj_add(b, cj_cast(cj_eq_scalar(b, 0), dtype));
        cj_tensor *floored = cj_floor_divide(a, nonzero), *remainder = cj_remainder(a, nonzero), *mod = cj_fmod(a, nonzero);
        assert_ok(c);
        for (int i = -6; i <= 6; i++)
            for (int j = -6; j <= 6; j++) {
                int64_t at[2] = { i + 6, j + 6 };
                int n = j == 0 ? 1 : j;
                assert_true(cj_at(floored, at) == floor((double)i / n));
                assert_true(cj_at(remainder, at) == i - n * floor((double)i / n));
                assert_true(cj_at(mod, at) == fmod(i, n));
                /* as in PyTorch: of negative powers only those of 1 and -1 are not 0; there is no 0 to a negative power */
                double want = j >= 0 ? pow(i, j) : i == 1 ? 1 : i == -1 ? (j % 2 ? -1 : 1) : 0;
                assert_true(cj_at(power, at) == want);
            }
    }
    /* products and sums wrap, casts saturate */
    cj_tensor *big = cj_from_i64(c, (int64_t[]){ INT64_MAX, INT64_MIN }, CJ_SHAPE(2)), *one = cj_ones(c, CJ_SHAPE(2), CJ_I64);
    int64_t got[2];
    assert_true(cj_to_i64(cj_add(big, one), got, 2) && got[0] == INT64_MIN && got[1] == INT64_MIN + 1);
    assert_true(cj_to_i64(cj_sub(big, one), got, 2) && got[0] == INT64_MAX - 1 && got[1] == INT64_MAX);
    assert_true(cj_to_i64(cj_mul(big, cj_add(one, one)), got, 2) && got[0] == -2 && got[1] == 0);
    assert_true(cj_to_i64(cj_neg(big), got, 2) && got[0] == -INT64_MAX && got[1] == INT64_MIN);
    assert_true(cj_to_i64(cj_floor_divide(big, cj_neg(one)), got, 2) && got[0] == -INT64_MAX && got[1] == INT64_MIN);
    assert_true(cj_to_i64(cj_remainder(big, cj_neg(one)), got, 2) && got[0] == 0 && got[1] == 0);
    cj_tensor *far = cj_from_f64(c, (double[]){ 1e30, -1e30, NAN, 2147483647, -2147483648.0, 254.9, 256, -1 }, CJ_SHAPE(8));
    static const int64_t as_i64[] = { INT64_MAX, INT64_MIN, 0, 2147483647, -2147483648, 254, 256, -1 },
                         as_i32[] = { INT32_MAX, INT32_MIN, 0, 2147483647, -2147483648, 254, 256, -1 },
                         as_u8[] = { 255, 0, 0, 255, 0, 254, 255, 0 };
    int64_t eight[8];
    assert_true(cj_to_i64(cj_cast(far, CJ_I64), eight, 8));
    assert_memory_equal(eight, as_i64, sizeof eight);
    assert_true(cj_to_i64(cj_cast(far, CJ_I32), eight, 8));
    assert_memory_equal(eight, as_i32, sizeof eight);
    assert_true(cj_to_i64(cj_cast(far, CJ_U8), eight, 8));
    assert_memory_equal(eight, as_u8, sizeof eight);
    /* constants, too: one element at a time, and many */
    static const double edge[] = { 0x1p31, -0x1p31, -0x1p31 - 1, 0x1p63, -0x1p63, NAN, 255, 255.5, -0.5, 0x1p31 - 1 };
    static const int64_t edge_i64[] = { 1ll << 31, -(1ll << 31), -(1ll << 31) - 1, INT64_MAX, INT64_MIN, 0, 255, 255, 0, INT32_MAX },
                         edge_i32[] = { INT32_MAX, INT32_MIN, INT32_MIN, INT32_MAX, INT32_MIN, 0, 255, 255, 0, INT32_MAX },
                         edge_u8[] = { 255, 0, 0, 255, 0, 0, 255, 255, 0, 255 };
    for (int i = 0; i < 10; i++)
        for (int n = 1; n <= 3; n += 2) {
            int64_t last[3];
            assert_true(cj_to_i64(cj_full(c, edge[i], CJ_SHAPE(n), CJ_I64), last, n) && last[n - 1] == edge_i64[i]);
            assert_true(cj_to_i64(cj_full(c, edge[i], CJ_SHAPE(n), CJ_I32), last, n) && last[n - 1] == edge_i32[i]);
            assert_true(cj_to_i64(cj_full(c, edge[i], CJ_SHAPE(n), CJ_U8), last, n) && last[n - 1] == edge_u8[i]);
        }
    assert_ok(c);
}

/* ---- reductions --------------------------------------------------------------------------------------------------------------------------------- */

static void reductions(void **state)
{
    (void)state;
    for (int turn = 0; turn < TURNS; turn++) {
        cj_scope scope = cj_scope_open(c);
        cj_shape s = random_shape(1, MOST), kept = s, inner = s;
        cj_tensor *x = view(&s, dtypes[below(4)]);
        cj_axes axes = { 0 };
        for (int d = 0; d < s.ndim; d++)
            if (below(2)) {
                axes.axis[axes.n++] = below(2) ? d : d - s.ndim;
                kept.dim[d] = 1;
            } else {
                inner.dim[d] = 1;
            }
        if (axes.n == 0) kept = (cj_shape){ .ndim = s.ndim, .dim = { 1, 1, 1, 1, 1 } }, inner = s;
        bool something = !is_empty(&inner);
        int one = (int)below(s.ndim); /* argmax takes one axis */
        cj_tensor *sum = cj_sum(x, .axes = axes, .keepdim = true), *any = cj_any(x, .axes = axes, .keepdim = true),
                  *all = cj_all(x, .axes = axes, .keepdim = true), *dropped = cj_sum(x, .axes = axes);
        cj_tensor *top = something ? cj_max(x, .axes = axes, .keepdim = true) : NULL,
                  *low = something ? cj_min(x, .axes = axes, .keepdim = true) : NULL;
        assert_shape(sum, &kept);
        assert_int_equal(cj_ndim(dropped), axes.n ? s.ndim - axes.n : 0);
        int64_t place = 0;
        double *flat = values_of(dropped);
        EACH(i, kept)
        {
            double total = 0, high = -INFINITY, small = INFINITY;
            bool some = false, every = true;
            EACH(k, inner)
            {
                int64_t at[CJ_MAX_DIMS];
                for (int d = 0; d < s.ndim; d++) at[d] = i[d] + k[d];
                double v = cj_at(x, at);
                total += v, high = fmax(high, v), small = fmin(small, v), some |= v != 0, every &= v != 0;
            }
            assert_true(cj_at(sum, i) == total && flat[place++] == total);
            assert_true(cj_at(any, i) == some && cj_at(all, i) == every);
            if (something) assert_true(cj_at(top, i) == high && cj_at(low, i) == small);
        }
        free(flat);
        if (s.dim[one]) {
            cj_tensor *where = cj_argmax(x, .axes = CJ_AXIS(one), .keepdim = true),
                      *least = cj_argmin(x, .axes = CJ_AXIS(one), .keepdim = true);
            cj_shape rest = s;
            rest.dim[one] = 1;
            assert_shape(where, &rest);
            EACH(i, rest)
            {
                int64_t first = 0, last = 0, at[CJ_MAX_DIMS];
                memcpy(at, i, sizeof at);
                double best = -INFINITY, worst = INFINITY;
                for (at[one] = 0; at[one] < s.dim[one]; at[one]++) {
                    double v = cj_at(x, at);
                    if (v > best) best = v, first = at[one];
                    if (v < worst) worst = v, last = at[one];
                }
                assert_true(cj_at(where, i) == (double)first && cj_at(least, i) == (double)last);
            }
        }
        cj_scope_close(scope);
    }
}

/* ---- products --------------------------------------------------------------------------------------------------------------------------------- */

/* Batches of every kind: shared, broadcast, permuted, so that some merge into one and others must not. */
static void products(void **state)
{
    (void)state;
    for (int turn = 0; turn < 2 * TURNS; turn++) {
        cj_scope scope = cj_scope_open(c);
        int batch = (int)below(4);
        cj_dtype dtype = below(2) ? CJ_F32 : CJ_F64;
        cj_shape s = { .ndim = batch + 2 }, left, right;
        for (int d = 0; d < batch; d++) s.dim[d] = 1 + below(3);
        int64_t m = below(20) ? 1 + below(9) : 0, n = below(20) ? 1 + below(9) : 0, inner = below(20) ? 1 + below(9) : 0;
        left = right = s;
        for (int d = 0; d < batch; d++) {
            if (below(5) == 0) left.dim[d] = 1;
            else if (below(5) == 0) right.dim[d] = 1;
            if (left.dim[d] == 1 && right.dim[d] == 1) s.dim[d] = 1;
        }
        int drop = below(4) ? 0 : (int)below(batch + 1); /* fewer batch axes on the right */
        right.ndim -= drop;
        for (int d = 0; d < right.ndim - 2; d++) right.dim[d] = right.dim[d + drop];
        for (int d = 0; d < drop; d++) s.dim[d] = left.dim[d];
        left.dim[batch] = m, left.dim[batch + 1] = inner;
        right.dim[right.ndim - 2] = inner, right.dim[right.ndim - 1] = n;
        s.dim[batch] = m, s.dim[batch + 1] = n;
        cj_tensor *a = view(&left, dtype), *b = view(&right, dtype), *y = cj_matmul(a, b);
        assert_shape(y, &s);
        EACH(i, s)
        {
            double sum = 0;
            for (int64_t k = 0; k < inner; k++) {
                int64_t at[CJ_MAX_DIMS], bt[CJ_MAX_DIMS];
                for (int d = 0; d < batch; d++) at[d] = left.dim[d] == 1 ? 0 : i[d];
                for (int d = 0; d < right.ndim - 2; d++) bt[d] = right.dim[d] == 1 ? 0 : i[d + drop];
                at[batch] = i[batch], at[batch + 1] = k;
                bt[right.ndim - 2] = k, bt[right.ndim - 1] = i[batch + 1];
                sum += cj_at(a, at) * cj_at(b, bt);
            }
            assert_true(cj_at(y, i) == sum);
        }
        cj_scope_close(scope);
    }
}

/* ---- copies and indices ------------------------------------------------------------------------------------------------------------------------ */

static void indices(void **state)
{
    (void)state;
    for (int turn = 0; turn < TURNS; turn++) {
        cj_scope scope = cj_scope_open(c);
        cj_shape s = random_shape(1, 4);
        cj_dtype dtype = dtypes[below(4)];
        int axis = (int)below(s.ndim);
        cj_tensor *x = view(&s, dtype);

        cj_shape other = s, joined = s;
        other.dim[axis] = below(4);
        joined.dim[axis] += other.dim[axis];
        cj_tensor *z = view(&other, dtype), *both = cj_cat(CJ_TENSORS(x, z), 2, axis - (below(2) ? s.ndim : 0));
        assert_shape(both, &joined);
        EACH(i, joined)
        {
            int64_t at[CJ_MAX_DIMS];
            memcpy(at, i, sizeof at);
            bool second = at[axis] >= s.dim[axis];
            if (second) at[axis] -= s.dim[axis];
            assert_true(cj_at(both, i) == cj_at(second ? z : x, at));
        }

        cj_tensor *copy = cj_clone(x), *flat = cj_flatten(x, 0);
        assert_shape(copy, &s);
        int64_t place = 0;
        EACH(i, s)
        {
            assert_true(cj_at(copy, i) == cj_at(x, i));
            assert_true(cj_at(flat, (int64_t[]){ place++ }) == cj_at(x, i));
        }

        if (s.dim[axis]) {
            int64_t n = below(5), chosen[5];
            for (int64_t j = 0; j < n; j++) chosen[j] = below(s.dim[axis]);
            cj_tensor *index = cj_from_i64(c, chosen, CJ_SHAPE(n)), *rows = cj_index_select(x, axis, index);
            cj_shape picked = s;
            picked.dim[axis] = n;
            assert_shape(rows, &picked);
            EACH(i, picked)
            {
                int64_t at[CJ_MAX_DIMS];
                memcpy(at, i, sizeof at);
                at[axis] = chosen[i[axis]];
                assert_true(cj_at(rows, i) == cj_at(x, at));
            }
            cj_tensor *source = view(&picked, dtype), *added = cj_index_add(x, axis, index, source);
            assert_shape(added, &s);
            EACH(i, s)
            {
                double want = cj_at(x, i);
                int64_t at[CJ_MAX_DIMS];
                memcpy(at, i, sizeof at);
                for (at[axis] = 0; at[axis] < n; at[axis]++)
                    if (chosen[at[axis]] == i[axis]) want += cj_at(source, at);
                assert_true(cj_at(added, i) == want);
            }
            cj_shape asked = s;
            asked.dim[axis] = 1 + below(4);
            cj_tensor *where = cj_randint(c, 0, s.dim[axis], asked);
            if (below(2) && s.ndim > 1) where = cj_t(cj_contiguous(cj_t(where))); /* the index strided */
            cj_tensor *got = cj_gather(x, axis, where), *from = view(&asked, dtype), *sum = cj_scatter_add(x, axis, where, from);
            assert_shape(got, &asked);
            double *want = values_of(x);
            EACH(i, asked)
            {
                int64_t at[CJ_MAX_DIMS], flat_at = 0;
                memcpy(at, i, sizeof at);
                at[axis] = (int64_t)cj_at(where, i);
                assert_true(cj_at(got, i) == cj_at(x, at));
                for (int d = 0; d < s.ndim; d++) flat_at = flat_at * s.dim[d] + at[d];
                want[flat_at] += cj_at(from, i);
            }
            double *result = values_of(sum);
            for (int64_t i = 0; i < cj_numel(sum); i++) assert_true(result[i] == want[i]);
            free(result);
            free(want);
        }
        if (s.ndim >= 2) {
            int64_t diagonal = below(7) - 3;
            cj_tensor *lower = cj_tril(x, diagonal), *upper = cj_triu(x, diagonal);
            EACH(i, s)
            {
                int64_t over = i[s.ndim - 1] - i[s.ndim - 2];
                assert_true(cj_at(lower, i) == (over <= diagonal ? cj_at(x, i) : 0));
                assert_true(cj_at(upper, i) == (over >= diagonal ? cj_at(x, i) : 0));
            }
        }
        /* writes touch what the view shows and nothing else */
        cj_tensor *all = cj_clone(both), *before = cj_clone(all), *part = cj_slice(all, axis, s.dim[axis], CJ_END, 1);
        assert_true(cj_assign_(part, cj_mul_scalar(z, 2)) == part);
        cj_add_(cj_slice(all, axis, 0, s.dim[axis], 1), x, -2);
        EACH(i, joined) assert_true(cj_at(all, i) == cj_at(before, i) * (i[axis] >= s.dim[axis] ? 2 : -1));
        assert_ok(c);
        cj_scope_close(scope);
    }
}

static int setup(void **state)
{
    (void)state;
    c = cj_ctx_new(&(cj_ctx_opts){ .threads = 2, .seed = 8 });
    return !c;
}
static int teardown(void **state)
{
    (void)state;
    cj_ctx_free(c);
    return 0;
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = { T(elementwise), T(integers), T(reductions), T(products), T(indices) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
