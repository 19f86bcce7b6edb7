/* What the loop learns from, and in which order.
 *
 * The order of an epoch is Fisher and Yates' shuffle (Durstenfeld 1964) with the numbers of Philox at (seed, data stream, epoch): a pure function, so a resumed run
 * continues in the middle of an epoch without having stored anything but its step.
 */
#include "core/philox.h"
#include "train/train.h"

void cj_data_order(uint64_t seed, int64_t epoch, int64_t n, int64_t *order)
{
    uint32_t key[2], word[4];
    cj_philox_key(seed, CJ_STREAM_DATA, key);
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        cj_philox_block(key, (uint64_t)epoch, (uint64_t)i, word);
        int64_t j = (int64_t)cj_philox_below(cj_philox_word64(word[0], word[1]), (uint64_t)i + 1);
        int64_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

/* ---- rows of tensors ---------------------------------------------------------------------------------------------------------------------- */

static bool rows_batch(cj_ctx *c, const cj_examples *e, int64_t epoch, cj_tensor *index, cj_tensor **x, cj_tensor **y)
{
    (void)epoch;
    *x = cj_index_select(e->x, 0, index);
    *y = cj_index_select(e->y, 0, index);
    return c->error == CJ_OK;
}

bool cj_examples_of_rows(cj_tensor *x, cj_tensor *y, cj_examples *out)
{
    *out = (cj_examples){ .batch = rows_batch, .x = x, .y = y };
    cj_ctx *c = cj_tensor_ctx(x);
    if (!c || !cj__usable(c, "examples", 0, x) || !cj__usable(c, "examples", 1, y)) return false;
    if (cj_ndim(x) < 1 || cj_ndim(y) < 1 || cj_size(x, 0) != cj_size(y, 0))
        return cj__error(c, CJ_ESHAPE, "examples: x %s and y %s have different numbers of rows", cj__tensor_text(x), cj__tensor_text(y));
    out->n = cj_size(x, 0);
    return true;
}

/* ---- images that change from epoch to epoch ------------------------------------------------------------------------------------------------- */

static bool images_batch(cj_ctx *c, const cj_examples *e, int64_t epoch, cj_tensor *index, cj_tensor **x, cj_tensor **y)
{
    if (!rows_batch(c, e, epoch, index, x, y)) return false;
    int64_t n = cj_numel(index);
    int64_t *number = cj__alloc(c, (size_t)n * sizeof *number);
    if (!number) return false;
    bool was = cj_no_grad(c);
    cj_augment_opts how = e->augment;
    how.seed = c->rng.seed, how.epoch = epoch, how.samples = number;
    if (cj_to_i64(index, number, n))
        *x = cj_reshape(cj_augment(cj_reshape(*x, CJ_SHAPE(n, e->channels, e->height, e->width)), &how), cj_shape_of(*x));
    cj_grad_mode(c, was);
    cj__free(c, number, (size_t)n * sizeof *number);
    return c->error == CJ_OK;
}

bool cj_examples_of_images(cj_tensor *x, cj_tensor *y, int64_t channels, int64_t height, int64_t width, cj_examples *out,
                           const cj_augment_opts *opts)
{
    if (!cj_examples_of_rows(x, y, out)) return false;
    if (cj_dtype_of(x) != CJ_F32 || channels < 1 || height < 1 || width < 1 || cj_numel(x) != out->n * channels * height * width)
        return cj__error(cj_tensor_ctx(x), CJ_ESHAPE, "examples: f32 images of %lld x %lld x %lld were expected, %s %s was found",
                         (long long)channels, (long long)height, (long long)width, cj_dtype_name(cj_dtype_of(x)), cj__tensor_text(x));
    out->channels = channels, out->height = height, out->width = width;
    if (opts) out->augment = *opts, out->batch = images_batch;
    return true;
}

cj_augment_opts cj_augmentation_opts(cj_augmentation kind, int64_t channels, int64_t height, int64_t width)
{
    int64_t side = height < width ? height : width, pad = side >= 16 ? side / 8 : 1;
    if (kind == CJ_AUGMENT_AUTO) kind = channels == 3 ? CJ_AUGMENT_FLIP_SHIFT : CJ_AUGMENT_SHIFT;
    switch (kind) {
    case CJ_AUGMENT_SHIFT: return (cj_augment_opts){ .pad = pad };
    case CJ_AUGMENT_FLIP: return (cj_augment_opts){ .flip = 0.5 };
    case CJ_AUGMENT_FLIP_SHIFT: return (cj_augment_opts){ .flip = 0.5, .pad = pad };
    case CJ_AUGMENT_WARP: return (cj_augment_opts){ .pad = side >= 16 ? pad : 0, .rotate = 10, .scale = 0.1, .shear = 0.1 };
    default: return (cj_augment_opts){ 0 };
    }
}

/* ---- windows of a text ---------------------------------------------------------------------------------------------------------------------- */

/* All windows of an epoch start at the same offset, so that over the epochs every symbol is seen at every position. Epoch 0 (and evaluation) start at the beginning. */
int64_t cj__text_offset(const cj_examples *e, uint64_t seed, int64_t epoch)
{
    if (epoch == 0 || (e->n + 1) * e->length >= cj_numel(e->x)) return 0;
    uint32_t key[2], word[4];
    cj_philox_key(seed, CJ_STREAM_DATA, key);
    cj_philox_block(key, (uint64_t)epoch, UINT64_MAX, word);
    return (int64_t)cj_philox_below(cj_philox_word64(word[0], word[1]), (uint64_t)e->length);
}

static bool text_batch(cj_ctx *c, const cj_examples *e, int64_t epoch, cj_tensor *index, cj_tensor **x, cj_tensor **y)
{
    int64_t B = cj_numel(index), T = e->length, offset = cj__text_offset(e, c->rng.seed, epoch);
    cj_tensor *start = cj_add_scalar(cj_mul_scalar(cj_reshape(index, CJ_SHAPE(B, 1)), (double)T), (double)offset);
    cj_tensor *where = cj_reshape(cj_add(start, cj_arange(c, 0, (double)T, 1, CJ_I64)), CJ_SHAPE(B * T));
    *x = cj_reshape(cj_index_select(e->x, 0, where), CJ_SHAPE(B, T));
    *y = cj_reshape(cj_index_select(e->x, 0, cj_add_scalar(where, 1)), CJ_SHAPE(B, T));
    return c->error == CJ_OK;
}

bool cj_examples_of_text(cj_tensor *symbols, int64_t length, cj_examples *out)
{
    *out = (cj_examples){ .batch = text_batch, .x = symbols, .length = length };
    cj_ctx *c = cj_tensor_ctx(symbols);
    if (!c || !cj__usable(c, "examples", 0, symbols)) return false;
    if (cj_ndim(symbols) != 1 || cj_dtype_of(symbols) != CJ_I64)
        return cj__error(c, CJ_ESHAPE, "examples: a text is i64 [N], this is %s %s", cj_dtype_name(cj_dtype_of(symbols)),
                         cj__tensor_text(symbols));
    if (length < 1 || cj_numel(symbols) < length + 1)
        return cj__error(c, CJ_EVALUE, "examples: windows of %lld symbols from a text of %lld", (long long)length,
                         (long long)cj_numel(symbols));
    out->n = (cj_numel(symbols) - 1) / length;
    if (out->n > 1) out->n--; /* room for the offset */
    return true;
}

/* ---- pairs of sentences -------------------------------------------------------------------------------------------------------------------------- */

int64_t cj__word_columns(int64_t used, int64_t all)
{
    enum { STEP = 16 };
    int64_t rounded = (used + STEP - 1) / STEP * STEP;
    return used < 1 ? 1 : rounded < all ? rounded : all;
}

static int64_t used_columns(cj_tensor *words)
{
    cj_tensor *used = cj_any(cj_ne_scalar(words, CJ_WORD_PAD), &(cj_reduce_opts){ .axes = CJ_AXIS(0) });
    int64_t all = cj_size(words, 1);
    cj_tensor *ends = cj_mul(cj_cast(used, CJ_I64), cj_arange(cj_tensor_ctx(words), 1, (double)all + 1, 1, CJ_I64));
    return cj__word_columns((int64_t)cj_item(cj_max(ends, NULL)), all);
}

static bool pairs_batch(cj_ctx *c, const cj_examples *e, int64_t epoch, cj_tensor *index, cj_tensor **x, cj_tensor **y)
{
    if (!rows_batch(c, e, epoch, index, x, y)) return false;
    bool was = cj_no_grad(c);
    *x = cj_contiguous(cj_slice(*x, 1, 0, used_columns(*x), 1));
    *y = cj_contiguous(cj_slice(*y, 1, 0, used_columns(*y), 1));
    cj_grad_mode(c, was);
    return c->error == CJ_OK;
}

bool cj_examples_of_pairs(cj_tensor *x, cj_tensor *y, cj_examples *out)
{
    if (!cj_examples_of_rows(x, y, out)) return false;
    out->batch = pairs_batch;
    if (cj_ndim(x) == 2 && cj_ndim(y) == 2 && cj_dtype_of(x) == CJ_I64 && cj_dtype_of(y) == CJ_I64 && cj_size(x, 1) > 0 &&
        cj_size(y, 1) > 1)
        return true;
    return cj__error(cj_tensor_ctx(x), CJ_ESHAPE, "examples: pairs are words i64 [n, S] and [n, T], these are %s %s and %s %s",
                     cj_dtype_name(cj_dtype_of(x)), cj__tensor_text(x), cj_dtype_name(cj_dtype_of(y)), cj__tensor_text(y));
}

cj_examples_kind cj__examples_kind(const cj_examples *e)
{
    return e->batch == rows_batch     ? CJ_EXAMPLES_ROWS
           : e->batch == images_batch ? CJ_EXAMPLES_IMAGES
           : e->batch == text_batch   ? CJ_EXAMPLES_TEXT
           : e->batch == pairs_batch  ? CJ_EXAMPLES_PAIRS
                                      : CJ_EXAMPLES_OTHER;
}
