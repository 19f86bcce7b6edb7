/* Arrays in plain binary files: IDX (Y. LeCun's format of MNIST), CIFAR's records (A. Krizhevsky 2009), WAV (RIFF), and bytes as they are. */
#include "data/bytes.h"

/* A tensor of the innermost scope on the values; NULL after an error. */
static cj_tensor *tensor(cj_ctx *c, const void *values, cj_dtype dtype, cj_shape shape)
{
    cj_tensor *t = cj_from_data(c, values, dtype, shape);
    return cj_is_poison(t) ? NULL : t;
}

cj_tensor *cj_bytes_load(cj_ctx *c, const char *path)
{
    cj_bytes b;
    if (!cj__bytes_load(&b, c, "cj_bytes_load", path)) return NULL;
    cj_tensor *t = tensor(c, b.data, CJ_U8, CJ_SHAPE((int64_t)b.n));
    cj__bytes_free(&b);
    return t;
}

/* ---- IDX: 0 0 type dimensions, a big-endian size per dimension, the elements, big-endian ------------------------------------------------------- */

/* The elements in place: big-endian to the machine's order, short integers widened into a buffer of their own. */
static cj_tensor *idx_tensor(const cj_bytes *b, int type, size_t size, size_t at, size_t n, cj_shape shape)
{
    static const cj_dtype dtypes[] = { CJ_U8, CJ_I32, CJ_DEFAULT_DTYPE, CJ_I32, CJ_I32, CJ_F32, CJ_F64 };
    cj_ctx *c = b->ctx;
    cj_dtype dtype = dtypes[type - 8];
    if (type == 8) return tensor(c, b->data + at, CJ_U8, shape);
    size_t bytes = n * cj_dtype_size(dtype);
    char *out = cj__alloc(c, bytes ? bytes : 1);
    if (!out) return NULL;
    for (size_t i = 0; i < n; i++) {
        const unsigned char *p = b->data + at + i * size;
        uint64_t wide = size == 8 ? cj__get64_big(p) : 0;
        uint32_t word = size == 4   ? cj__get32_big(p)
                        : size == 2 ? (uint32_t)(int32_t)(int16_t)(uint16_t)(p[0] << 8 | p[1])
                                    : (uint32_t)(int32_t)(int8_t)p[0];
        if (size == 8) memcpy(out + i * 8, &wide, 8);
        else memcpy(out + i * 4, &word, 4);
    }
    cj_tensor *t = tensor(c, out, dtype, shape);
    cj__free(c, out, bytes ? bytes : 1);
    return t;
}

static cj_tensor *idx_read(const cj_bytes *b)
{
    static const size_t sizes[] = { 1, 1, 0, 2, 4, 4, 8 };
    const unsigned char *p = cj__bytes_at(b, 0, 4, "an IDX header");
    if (!p) return NULL;
    int type = p[2], ndim = p[3];
    if (p[0] || p[1]) return cj__bytes_error(b, 0, "two zero bytes of an IDX file were expected, %d %d were found", p[0], p[1]), NULL;
    if (type < 8 || type > 14 || type == 10)
        return cj__bytes_error(b, 2, "an IDX type (8, 9, 11 … 14) was expected, %d was found", type), NULL;
    if (ndim < 1 || ndim > CJ_MAX_DIMS)
        return cj__bytes_error(b, 3, "1 to %d dimensions were expected, %d were found", CJ_MAX_DIMS, ndim), NULL;
    p = cj__bytes_at(b, 4, 4 * (size_t)ndim, "sizes");
    if (!p) return NULL;
    cj_shape shape = { .ndim = ndim };
    size_t at = 4 + 4 * (size_t)ndim, size = sizes[type - 8], n = 1;
    bool empty = false;
    for (int d = 0; d < ndim; d++) {
        shape.dim[d] = cj__get32_big(p + 4 * d);
        empty |= !shape.dim[d];
        if (!shape.dim[d]) continue;                /* a huge size beside one of 0 counts too */
        if (n > CJ_MAX_FILE / (size_t)shape.dim[d]) /* n stays below 2^31 */
            return cj__bytes_error(b, 4 + 4 * (size_t)d, "sizes that fit %zu bytes were expected, %lld was found", b->n - at,
                                   (long long)shape.dim[d]),
                   NULL;
        n *= (size_t)shape.dim[d];
    }
    if (empty) n = 0;
    if (b->n - at != n * size)
        return cj__bytes_error(b, at, "%zu bytes of elements were expected, %zu were found", n * size, b->n - at), NULL;
    return idx_tensor(b, type, size, at, n, shape);
}

cj_tensor *cj_idx_load(cj_ctx *c, const char *path)
{
    cj_bytes b;
    if (!cj__bytes_load(&b, c, "cj_idx_load", path)) return NULL;
    cj_tensor *t = idx_read(&b);
    cj__bytes_free(&b);
    return t;
}

/* ---- CIFAR ------------------------------------------------------------------------------------------------------------------------------------ */

static bool cifar_read(const cj_bytes *b, size_t labels, cj_tensor **x, cj_tensor **y)
{
    cj_ctx *c = b->ctx;
    size_t record = labels + 3072, n = b->n / record, room = n * 3072 > n * labels * 8 ? n * 3072 : n * labels * 8;
    if (!n || b->n % record)
        return cj__bytes_error(b, n * record, "records of %zu bytes were expected, a rest of %zu bytes was found", record, b->n % record);
    unsigned char *out = cj__alloc(c, room);
    if (!out) return false;
    for (size_t i = 0; i < n; i++) memcpy(out + i * 3072, b->data + i * record + labels, 3072);
    *x = tensor(c, out, CJ_U8, CJ_SHAPE((int64_t)n, 3, 32, 32));
    int64_t *label = (int64_t *)(void *)out;
    bool ok = *x != NULL;
    for (size_t i = 0; ok && i < n * labels; i++) {
        size_t at = i / labels * record + i % labels;
        int most = labels == 1 ? 9 : i % 2 ? 99 : 19;
        label[i] = b->data[at];
        if (label[i] > most) ok = cj__bytes_error(b, at, "a class of 0 … %d was expected, %d was found", most, b->data[at]);
    }
    if (ok) *y = labels == 1 ? tensor(c, label, CJ_I64, CJ_SHAPE((int64_t)n)) : tensor(c, label, CJ_I64, CJ_SHAPE((int64_t)n, 2));
    cj__free(c, out, room);
    return ok && *y;
}

bool cj_cifar_load(cj_ctx *c, const char *path, int labels, cj_tensor **x, cj_tensor **y)
{
    if (!c || !x || !y) return false;
    *x = *y = NULL;
    if (labels != 1 && labels != 2)
        return cj__error(c, CJ_EVALUE, "cj_cifar_load: 1 or 2 labels per record were expected, %d were given", labels);
    cj_bytes b;
    if (!cj__bytes_load(&b, c, "cj_cifar_load", path)) return false;
    bool ok = cifar_read(&b, (size_t)labels, x, y);
    cj__bytes_free(&b);
    return ok;
}

/* ---- WAV: RIFF size WAVE, chunks "fmt " and "data" among others ------------------------------------------------------------------------------- */

enum { WAV_PCM = 1, WAV_FLOAT = 3, WAV_EXTENSIBLE = 0xfffe };

typedef struct wav {
    int kind, channels, bits;
    int64_t rate;
    size_t data, n; /* bytes of the samples */
} wav;

static bool wav_format(const cj_bytes *b, size_t at, size_t n, wav *w)
{
    const unsigned char *p = cj__bytes_at(b, at, n < 16 ? 16 : n, "a format chunk");
    if (!p) return false;
    w->kind = cj__get16(p);
    w->channels = cj__get16(p + 2);
    w->rate = cj__get32(p + 4);
    w->bits = cj__get16(p + 14);
    if (w->kind == WAV_EXTENSIBLE && n >= 26) w->kind = cj__get16(p + 24); /* the first bytes of its GUID */
    bool pcm = w->kind == WAV_PCM && (w->bits == 8 || w->bits == 16 || w->bits == 24 || w->bits == 32);
    bool real = w->kind == WAV_FLOAT && (w->bits == 32 || w->bits == 64);
    if (!pcm && !real)
        return cj__bytes_error(b, at, "PCM of 8, 16, 24 or 32 bits or floats of 32 or 64 were expected, format %d of %d bits was found",
                               w->kind, w->bits);
    if (w->channels < 1) return cj__bytes_error(b, at + 2, "1 channel or more was expected, %d were found", w->channels);
    return true;
}

static bool wav_chunks(const cj_bytes *b, wav *w)
{
    const unsigned char *p = cj__bytes_at(b, 0, 12, "a RIFF header");
    if (!p) return false;
    if (memcmp(p, "RIFF", 4) != 0 || memcmp(p + 8, "WAVE", 4) != 0) return cj__bytes_error(b, 0, "RIFF … WAVE of a WAV file was expected");
    for (size_t at = 12; !w->data;) {
        p = cj__bytes_at(b, at, 8, w->kind ? "a data chunk" : "a format chunk");
        if (!p) return false;
        size_t n = cj__get32(p + 4), start = at + 8;
        bool data = memcmp(p, "data", 4) == 0;
        if (!cj__bytes_at(b, start, n, "a chunk")) return false;
        if (memcmp(p, "fmt ", 4) == 0 && !wav_format(b, start, n, w)) return false;
        if (data && !w->kind) return cj__bytes_error(b, at, "a format chunk was expected before the data");
        if (data) w->data = start, w->n = n;
        at = start + n + (n & 1);
    }
    return true;
}

static float wav_sample(const unsigned char *p, const wav *w)
{
    if (w->kind == WAV_FLOAT && w->bits == 64) {
        uint64_t u = cj__get64(p);
        double d;
        memcpy(&d, &u, 8);
        return (float)d;
    }
    if (w->bits == 8) return (float)((int)p[0] - 128) / 128.0f;
    if (w->bits == 16) return (float)(int16_t)cj__get16(p) / 32768.0f;
    if (w->bits == 24) return (float)((int32_t)((uint32_t)p[0] << 8 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 24) >> 8) / 8388608.0f;
    uint32_t u = cj__get32(p);
    float f;
    memcpy(&f, &u, 4);
    return w->kind == WAV_FLOAT ? f : (float)(int32_t)u / 2147483648.0f;
}

static cj_tensor *wav_read(const cj_bytes *b, int64_t *rate)
{
    wav w = { 0 };
    if (!wav_chunks(b, &w)) return NULL;
    size_t size = (size_t)w.bits / 8, frame = size * (size_t)w.channels, frames = w.n / frame, channels = (size_t)w.channels;
    if (w.n % frame)
        return cj__bytes_error(b, w.data, "frames of %zu bytes were expected, a rest of %zu bytes was found", frame, w.n % frame), NULL;
    size_t room = frames * channels * sizeof(float);
    float *out = cj__alloc(b->ctx, room ? room : 1);
    if (!out) return NULL;
    for (size_t i = 0; i < frames; i++)
        for (size_t k = 0; k < channels; k++) out[k * frames + i] = wav_sample(b->data + w.data + i * frame + k * size, &w);
    cj_tensor *t = tensor(b->ctx, out, CJ_F32, CJ_SHAPE((int64_t)channels, (int64_t)frames));
    cj__free(b->ctx, out, room ? room : 1);
    if (t && rate) *rate = w.rate;
    return t;
}

cj_tensor *cj_wav_load(cj_ctx *c, const char *path, int64_t *rate)
{
    cj_bytes b;
    if (!cj__bytes_load(&b, c, "cj_wav_load", path)) return NULL;
    cj_tensor *t = wav_read(&b, rate);
    cj__bytes_free(&b);
    return t;
}
