/* Batches prepared ahead of the loop: rows, images that change from epoch to epoch, windows of a text, pairs of sentences.
 *
 * The order of an epoch is a pure function (cj_data_order) and so is what happens to a row in it, so threads can prepare batch k+1, k+2, … while the loop computes
 * batch k.  A thread takes the next number when fewer than `ahead` are prepared or under way, and a free slot to make it in.  When the loop asks for other rows than the next
 * batch has (its first batch, a resumed run, an evaluation), they are prepared on the spot and, if they are a batch of the epoch, the threads go on from there.  The threads
 * touch no context: memory is asked for once, at the beginning.
 *
 * Where the context computes on all processors, a thread beside it only takes one of them away, in the middle of a product, while the others wait: there the computing threads
 * prepare each batch together when it is asked for.  Either way the loop gets a slot's memory itself, not a copy: the slot is free again when nobody but the loader holds its
 * tensors, which is looked at when the next batch is asked for.
 */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "core/host.h"
#include "core/parallel.h"
#include "data/augment.h"
#include "train/train.h"

enum { MOST_AHEAD = 64, MOST_THREADS = 16, MOST_LENT = 2 };

typedef enum state { EMPTY, BUSY, READY, LENT } state;

typedef struct slot {
    state state;
    int64_t number, epoch, count; /* which batch, and its rows */
    int64_t columns[2];           /* of pairs: words of x and y that the longest sentences need */
    int64_t *row;
    char *x, *y;
    cj_tensor *tx, *ty; /* whose data x and y are; NULL on a device, where batches are copied */
} slot;

struct cj_loader {
    cj_object object;
    cj_ctx *ctx;
    cj_examples_kind kind;
    cj_examples of; /* what is prepared: tensors, the length of windows */
    cj_host host_x, host_y;
    bool open_x, open_y, bytes; /* bytes: x is u8, and becomes f32 */
    int64_t n, features, batch, ahead;
    size_t x_bytes, y_bytes; /* of a row of a batch at most */
    float scale;
    cj_augment_opts augment;
    bool augmented;
    cj_images image;
    uint64_t seed;
    void *memory;
    size_t memory_bytes;
    slot slot[MOST_AHEAD + MOST_LENT + 1]; /* of the threads `slots` of them, then the caller's */
    int64_t slots;
    float *room; /* for an image per thread: the context's, then the loader's */
    size_t room_size;
    int rooms;

    /* shared with the threads, under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread[MOST_THREADS];
    int threads, busy;
    bool stop, running;  /* running: the threads know where to go on */
    int64_t first, next; /* the loop's next batch, the threads' next: first … first + ahead; counted from batch 0 of epoch 0 */
    int64_t *order;      /* of order_epoch */
    int64_t order_epoch;
    int64_t hits;
};

/* ---- one batch --------------------------------------------------------------------------------------------------------------------------------- */

static void prepare_row(const cj_loader *l, const slot *s, int64_t i, const cj_augment_opts *o, float *room)
{
    char *out = s->x + (size_t)i * l->x_bytes;
    const char *from = (const char *)l->host_x.view.data;
    if (l->bytes) {
        const unsigned char *in = (const unsigned char *)from + s->row[i] * l->features;
        float *v = (float *)(void *)out;
        for (int64_t k = 0; k < l->features; k++) v[k] = (float)in[k] * l->scale;
    } else memcpy(out, from + (size_t)s->row[i] * l->x_bytes, l->x_bytes);
    if (l->augmented) cj__augment_image((float *)(void *)out, room, &l->image, o, s->row[i]);
    memcpy(s->y + (size_t)i * l->y_bytes, (const char *)l->host_y.view.data + (size_t)s->row[i] * l->y_bytes, l->y_bytes);
}

static void prepare_window(const cj_loader *l, const slot *s, int64_t i, int64_t offset)
{
    const char *from = (const char *)l->host_x.view.data + (size_t)(s->row[i] * l->of.length + offset) * sizeof(int64_t);
    memcpy(s->x + (size_t)i * l->x_bytes, from, l->x_bytes);
    memcpy(s->y + (size_t)i * l->y_bytes, from + sizeof(int64_t), l->y_bytes);
}

/* One side of all pairs, cut to what the longest sentence needs; returns the columns that are left. */
static int64_t prepare_sentences(const slot *s, const int64_t *words, int64_t all, char *out)
{
    int64_t most = 0;
    for (int64_t i = 0; i < s->count; i++) {
        const int64_t *row = words + s->row[i] * all;
        int64_t n = all;
        while (n > most && row[n - 1] == CJ_WORD_PAD) n--;
        most = n;
    }
    int64_t columns = cj__word_columns(most, all);
    size_t bytes = (size_t)columns * sizeof *words;
    for (int64_t i = 0; i < s->count; i++) memcpy(out + (size_t)i * bytes, words + s->row[i] * all, bytes);
    return columns;
}

typedef struct rows_job {
    const cj_loader *loader;
    const slot *slot;
    int room; /* of the first worker */
} rows_job;

static void prepare_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = arg;
    const cj_loader *l = j->loader;
    cj_augment_opts o = l->augment;
    o.seed = l->seed;
    o.epoch = j->slot->epoch;
    for (int64_t i = begin; i < end; i++) prepare_row(l, j->slot, i, &o, l->room + (size_t)(j->room + worker) * l->room_size);
}

/* pool: NULL on the loader's own threads, with the number of that thread's room. */
static void prepare(const cj_loader *l, slot *s, cj_pool *pool, int room)
{
    enum { GRAIN = 32768 }; /* bytes */
    if (l->kind == CJ_EXAMPLES_PAIRS) {
        s->columns[0] = prepare_sentences(s, (const int64_t *)(const void *)l->host_x.view.data, cj_size(l->of.x, 1), s->x);
        s->columns[1] = prepare_sentences(s, (const int64_t *)(const void *)l->host_y.view.data, cj_size(l->of.y, 1), s->y);
        return;
    }
    if (l->kind == CJ_EXAMPLES_TEXT) {
        int64_t offset = cj__text_offset(&l->of, l->seed, s->epoch);
        for (int64_t i = 0; i < s->count; i++) prepare_window(l, s, i, offset);
        return;
    }
    rows_job j = { l, s, room };
    cj__parallel_for(pool, s->count, l->x_bytes < GRAIN ? GRAIN / (int64_t)(l->x_bytes + 1) + 1 : 1, prepare_rows, &j);
}

static cj_dtype x_dtype(const cj_loader *l) { return l->bytes ? CJ_F32 : cj_dtype_of(l->of.x); }
static cj_dtype y_dtype(const cj_loader *l) { return l->kind == CJ_EXAMPLES_TEXT ? CJ_I64 : cj_dtype_of(l->of.y); }

static int64_t batches(const cj_loader *l) { return (l->n + l->batch - 1) / l->batch; }

/* The order of an epoch, under the lock. */
static const int64_t *order_of(cj_loader *l, int64_t epoch)
{
    if (l->order_epoch != epoch) cj_data_order(l->seed, epoch, l->n, l->order);
    l->order_epoch = epoch;
    return l->order;
}

/* The rows of batch `number` into a slot, under the lock. */
static void plan(cj_loader *l, slot *s, int64_t number)
{
    int64_t at = number % batches(l) * l->batch;
    s->number = number;
    s->epoch = number / batches(l);
    s->count = at + l->batch < l->n ? l->batch : l->n - at;
    memcpy(s->row, order_of(l, s->epoch) + at, (size_t)s->count * sizeof *s->row);
}

/* A slot in this state, with this batch (-1: any); NULL: there is none.  Under the lock. */
static slot *find(cj_loader *l, state state, int64_t number)
{
    for (int64_t i = 0; i < l->slots; i++)
        if (l->slot[i].state == state && (number < 0 || l->slot[i].number == number)) return &l->slot[i];
    return NULL;
}

/* Where all processors compute, a thread that wakes up takes one of them away in the middle of a product, and the others wait for it: a batch is not that urgent. */
static void work_in_the_background(void)
{
#ifdef SCHED_BATCH
    struct sched_param p = { 0 };
    int policy;
    if (pthread_getschedparam(pthread_self(), &policy, &p) == 0 && policy == SCHED_OTHER)
        (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &p);
#endif
}

static void *work(void *arg)
{
    cj_loader *l = arg;
    work_in_the_background();
    pthread_mutex_lock(&l->lock);
    int room = l->ctx->threads + l->busy++; /* while they start, busy counts the threads */
    pthread_cond_broadcast(&l->changed);
    for (;;) {
        if (l->stop) break;
        slot *s = l->running && l->next < l->first + l->ahead ? find(l, EMPTY, -1) : NULL;
        if (!s) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        plan(l, s, l->next++);
        s->state = BUSY;
        pthread_mutex_unlock(&l->lock);
        prepare(l, s, NULL, room);
        pthread_mutex_lock(&l->lock);
        s->state = READY;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- asking for one ---------------------------------------------------------------------------------------------------------------------------- */

/* Which batch these rows are in the epoch's order; -1: none. */
static int64_t number_of(cj_loader *l, int64_t epoch, const int64_t *row, int64_t count)
{
    if (epoch < 0 || count > l->batch) return -1;
    const int64_t *order = order_of(l, epoch);
    for (int64_t at = 0; at < l->n; at += l->batch)
        if (order[at] == row[0] && count == (at + l->batch < l->n ? l->batch : l->n - at))
            return memcmp(order + at, row, (size_t)count * sizeof *row) == 0 ? epoch * batches(l) + at / l->batch : -1;
    return -1;
}

/* The threads finish what they are at, everything prepared is forgotten, and they go on with batch `number`; under the lock. */
static void go_on_from(cj_loader *l, int64_t number)
{
    l->running = false;
    for (int64_t i = 0; i < l->slots; i++) {
        while (l->slot[i].state == BUSY) pthread_cond_wait(&l->changed, &l->lock);
        if (l->slot[i].state == READY) l->slot[i].state = EMPTY;
    }
    l->first = l->next = number;
    l->running = true;
    pthread_cond_broadcast(&l->changed);
}

/* Slots whose tensors nobody else holds any more; under the lock.  Returns how many are still held. */
static int take_back(cj_loader *l)
{
    int held = 0;
    for (int64_t i = 0; i < l->slots; i++) {
        slot *s = &l->slot[i];
        if (s->state == LENT && s->tx->st->refs == 1 && s->ty->st->refs == 1) s->state = EMPTY;
        held += s->state == LENT;
    }
    return held;
}

/* The slot where the wanted rows were prepared ahead; NULL: they were not.  Under the lock.  There is always a free slot for the loop's next batch, because at most
 * MOST_LENT are held, so waiting ends. */
static slot *prepared(cj_loader *l, int64_t epoch, const int64_t *row, int64_t count)
{
    if (!l->running) return NULL;
    slot *s;
    while (!(s = find(l, READY, l->first))) pthread_cond_wait(&l->changed, &l->lock);
    bool same = s->epoch == epoch && s->count == count && memcmp(s->row, row, (size_t)count * sizeof *row) == 0;
    return same ? s : NULL;
}

/* The memory of a slot as a tensor of this shape, or a copy of it. */
static cj_tensor *tensor_of(cj_loader *l, cj_tensor *whole, const char *data, cj_dtype dtype, cj_shape shape, bool lend)
{
    if (!lend) return cj_from_data(l->ctx, data, dtype, shape);
    int64_t stride[CJ_MAX_DIMS];
    int64_t next = 1;
    for (int d = shape.ndim - 1; d >= 0; next *= shape.dim[d], d--) stride[d] = next;
    cj_tensor *t = cj__tensor_view(whole, 0, shape.ndim, shape.dim, stride);
    return t ? t : l->ctx->poison;
}

static bool deliver(cj_loader *l, const slot *s, bool lend, cj_tensor **x, cj_tensor **y)
{
    bool text = l->kind == CJ_EXAMPLES_TEXT;
    cj_shape a = text ? CJ_SHAPE(0, l->of.length) : cj_shape_of(l->of.x), b = text ? a : cj_shape_of(l->of.y);
    a.dim[0] = b.dim[0] = s->count;
    if (l->kind == CJ_EXAMPLES_PAIRS) a.dim[1] = s->columns[0], b.dim[1] = s->columns[1];
    *x = tensor_of(l, s->tx, s->x, x_dtype(l), a, lend);
    *y = tensor_of(l, s->ty, s->y, y_dtype(l), b, lend);
    return l->ctx->error == CJ_OK;
}

static bool rows_fit(cj_loader *l, const int64_t *row, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (row[i] < 0 || row[i] >= l->n)
            return cj__error(l->ctx, CJ_EVALUE, "loader: rows of 0 … %lld were expected, %lld was asked for", (long long)l->n - 1,
                             (long long)row[i]);
    return true;
}

/* Rows that no thread had ready, by the computing threads.  More of them than a slot has room for are made by the operators, unless the loader itself makes them (u8 to f32):
 * then `batch` at a time. */
static bool on_the_spot(cj_loader *l, int64_t epoch, cj_tensor *index, const int64_t *row, cj_tensor **x, cj_tensor **y)
{
    int64_t count = cj_numel(index);
    if (count > l->batch && l->of.batch) return l->of.batch(l->ctx, &l->of, epoch, index, x, y);
    bool lend = l->threads == 0 && count <= l->batch && !l->ctx->backend && take_back(l) < MOST_LENT;
    slot *s = lend ? find(l, EMPTY, -1) : &l->slot[l->slots];
    *x = *y = NULL;
    for (int64_t at = 0; at < count; at += s->count) {
        cj_tensor *part[2];
        s->epoch = epoch;
        s->count = count - at < l->batch ? count - at : l->batch;
        memcpy(s->row, row + at, (size_t)s->count * sizeof *row);
        prepare(l, s, l->ctx->pool, 0);
        if (!deliver(l, s, lend, &part[0], &part[1])) return false;
        *x = at ? cj_cat((cj_tensor *[]){ *x, part[0] }, 2, 0) : part[0];
        *y = at ? cj_cat((cj_tensor *[]){ *y, part[1] }, 2, 0) : part[1];
    }
    if (lend) s->state = LENT;
    return l->ctx->error == CJ_OK;
}

static bool loader_batch(cj_ctx *c, const cj_examples *e, int64_t epoch, cj_tensor *index, cj_tensor **x, cj_tensor **y)
{
    cj_loader *l = e->user;
    int64_t count = cj_numel(index);
    if (!cj__cancel_check(c)) return false;
    if (count < 1) return cj__error(c, CJ_EVALUE, "loader: a batch of %lld rows", (long long)count);
    size_t bytes = (size_t)count * sizeof(int64_t);
    int64_t *row = cj__alloc(c, bytes);
    if (!row) return false;
    bool ok = cj_to_i64(index, row, count) && rows_fit(l, row, count), ahead = false;
    if (ok && l->threads > 0) {
        pthread_mutex_lock(&l->lock);
        bool lend = take_back(l) < MOST_LENT && !c->backend;
        slot *s = prepared(l, epoch, row, count);
        if (s && lend) ok = deliver(l, s, true, x, y);
        if (s && !lend) { /* READY slots are the caller's alone */
            pthread_mutex_unlock(&l->lock);
            ok = deliver(l, s, false, x, y);
            pthread_mutex_lock(&l->lock);
        }
        ahead = s != NULL;
        if (s) {
            s->state = lend ? LENT : EMPTY;
            l->first++;
            l->hits++;
        } else {
            int64_t number = number_of(l, epoch, row, count);
            if (number >= 0) go_on_from(l, number + 1);
        }
        if (s) pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
    }
    if (ok && !ahead) ok = on_the_spot(l, epoch, index, row, x, y);
    cj__free(c, row, bytes);
    return ok;
}

/* ---- making and freeing ------------------------------------------------------------------------------------------------------------------------- */

static void loader_free(cj_object *object)
{
    cj_loader *l = (cj_loader *)(void *)object;
    cj_ctx *c = l->ctx;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->threads; i++) pthread_join(l->thread[i], NULL);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    for (int64_t i = 0; i <= l->slots; i++) cj_release(l->slot[i].tx), cj_release(l->slot[i].ty);
    if (l->open_x) cj__host_close(&l->host_x);
    if (l->open_y) cj__host_close(&l->host_y);
    if (l->memory) cj__free(c, l->memory, l->memory_bytes);
    cj__free(c, l, sizeof *l);
}

void cj_loader_free(cj_loader *l)
{
    if (!l) return;
    cj__object_remove(l->ctx, &l->object);
    loader_free(&l->object);
}

static bool fits(cj_ctx *c, cj_tensor *x, cj_tensor *y)
{
    if (cj_ndim(x) < 1 || cj_ndim(y) < 1 || cj_size(x, 0) != cj_size(y, 0) || cj_size(x, 0) < 1)
        return cj__error(c, CJ_ESHAPE, "cj_loader_new: x and y with equally many rows were expected, %s and %s were found",
                         cj__tensor_text(x), cj__tensor_text(y));
    if (cj_dtype_of(x) != CJ_F32 && cj_dtype_of(x) != CJ_U8)
        return cj__error(c, CJ_EDTYPE, "cj_loader_new: x of f32 or u8 was expected, %s was found", cj_dtype_name(cj_dtype_of(x)));
    return true;
}

static bool options_fit(cj_ctx *c, const cj_loader_opts *o)
{
    if (o->batch >= 0 && o->ahead >= 0 && o->ahead <= MOST_AHEAD && o->threads >= -1 && o->threads <= MOST_THREADS) return true;
    return cj__error(c, CJ_EVALUE,
                     "cj_loader_new: a batch, at most %d ahead and -1 to %d threads were expected, %lld, %lld and %d were found",
                     MOST_AHEAD, MOST_THREADS, (long long)o->batch, (long long)o->ahead, o->threads);
}

static bool find_images(cj_loader *l, const cj_augment_opts *augment, const cj_images *image)
{
    if (!augment) return true;
    cj_tensor *x = l->of.x;
    l->image = cj_ndim(x) == 4 ? (cj_images){ 1, cj_size(x, 1), cj_size(x, 2), cj_size(x, 3) } : *image;
    if (l->image.channels < 1 || l->image.height < 1 || l->image.width < 1 || cj__image_size(&l->image) != l->features)
        return cj__error(
            l->ctx, CJ_ESHAPE,
            "cj_loader_new: rows of channels x height x width were expected to augment, %lld x %lld x %lld and x %s were found",
            (long long)l->image.channels, (long long)l->image.height, (long long)l->image.width, cj__tensor_text(x));
    l->augment = *augment;
    l->augmented = true;
    return cj__augment_allowed(l->ctx, &l->augment, &l->image);
}

static bool get_tensors(cj_loader *l, slot *s)
{
    int64_t x = l->batch * (int64_t)(l->x_bytes / cj_dtype_size(x_dtype(l))),
            y = l->batch * (int64_t)(l->y_bytes / cj_dtype_size(y_dtype(l)));
    s->tx = cj__tensor_persistent(l->ctx, x_dtype(l), 1, &x, false);
    s->ty = s->tx ? cj__tensor_persistent(l->ctx, y_dtype(l), 1, &y, false) : NULL;
    if (!s->ty) return false;
    s->x = s->tx->data;
    s->y = s->ty->data;
    return true;
}

static size_t lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* One block for rows, orders and rooms, and where slots are not tensors for them; the slots' tensors. */
static bool get_memory(cj_loader *l)
{
    bool copied = l->ctx->backend != NULL;
    size_t rows = (size_t)l->batch, x = copied ? lines(rows * l->x_bytes) : 0, y = copied ? lines(rows * l->y_bytes) : 0;
    size_t row = lines(rows * sizeof(int64_t)), order = lines((size_t)l->n * sizeof(int64_t));
    size_t room = l->augmented ? lines((size_t)l->features * sizeof(float)) : 0, rooms = (size_t)l->rooms;
    size_t slots = (size_t)l->slots + 1;
    l->memory_bytes = slots * (x + y + row) + order + rooms * room;
    char *at = l->memory = cj__alloc(l->ctx, l->memory_bytes);
    if (!at) return false;
    for (size_t i = 0; i < slots; i++, at += x + y + row) {
        slot *s = &l->slot[i];
        s->row = (int64_t *)(void *)at;
        s->x = at + row;
        s->y = at + row + x;
        if (!copied && !get_tensors(l, s)) return false;
    }
    l->order = (int64_t *)(void *)at;
    l->room = (float *)(void *)(at + order);
    l->room_size = room / sizeof(float);
    return true;
}

/* One thread where a processor is left over for it. */
static int usual_threads(const cj_ctx *c)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return c->backend || c->threads < processors ? 1 : 0;
}

/* As many as can be had; with none of them everything is done when it is asked for. */
static void start(cj_loader *l, int wanted)
{
    while (l->threads < wanted && pthread_create(&l->thread[l->threads], NULL, work, l) == 0) l->threads++;
    pthread_mutex_lock(&l->lock);
    while (l->busy < l->threads) pthread_cond_wait(&l->changed, &l->lock); /* each has its room */
    pthread_mutex_unlock(&l->lock);
}

/* of: what to prepare; scale not 0: u8 becomes f32. */
static cj_loader *make(cj_ctx *c, const cj_examples *of, cj_examples_kind kind, const cj_augment_opts *augment, const cj_images *image,
                       double scale, const cj_loader_opts *o)
{
    cj_tensor *x = of->x, *y = kind == CJ_EXAMPLES_TEXT ? x : of->y;
    if (!options_fit(c, o)) return NULL;
    if (!cj_is_contiguous(x) || !cj_is_contiguous(y)) {
        cj__error(c, CJ_ESHAPE, "cj_loader_new: x and y must be contiguous (cj_contiguous)");
        return NULL;
    }
    cj_loader *l = cj__zalloc(c, sizeof *l);
    if (!l) return NULL;
    l->ctx = c;
    l->kind = kind;
    l->of = *of;
    l->n = of->n;
    l->bytes = scale != 0 && cj_dtype_of(x) == CJ_U8;
    l->scale = (float)scale;
    bool text = kind == CJ_EXAMPLES_TEXT;
    l->features = text ? of->length : cj_numel(x) / l->n;
    l->x_bytes = (size_t)l->features * (l->bytes ? sizeof(float) : cj_dtype_size(cj_dtype_of(x)));
    l->y_bytes = text ? l->x_bytes : (size_t)(cj_numel(y) / l->n) * cj_dtype_size(cj_dtype_of(y));
    l->batch = o->batch ? o->batch : 32;
    if (l->batch > l->n) l->batch = l->n;
    l->ahead = o->ahead ? o->ahead : 4;
    int threads = o->threads < 0 ? 0 : o->threads ? o->threads : usual_threads(c);
    l->slots = threads ? l->ahead + MOST_LENT : MOST_LENT;
    l->rooms = threads + c->threads;
    l->seed = c->rng.seed;
    l->order_epoch = -1;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->open_x = cj__host_open(&l->host_x, x, "cj_loader_new");
    l->open_y = l->open_x && cj__host_open(&l->host_y, y, "cj_loader_new");
    if (!l->open_y || !find_images(l, augment, image) || !get_memory(l)) {
        loader_free(&l->object);
        return NULL;
    }
    start(l, threads);
    cj__object_add(c, &l->object, loader_free);
    return l;
}

static const cj_loader_opts defaults;

cj_loader *cj_loader_new(cj_tensor *x, cj_tensor *y, const cj_loader_opts *opts)
{
    const cj_loader_opts *o = opts ? opts : &defaults;
    cj_ctx *c = cj_tensor_ctx(x);
    if (!c || !cj__usable(c, "cj_loader_new", 0, x) || !cj__usable(c, "cj_loader_new", 1, y) || !fits(c, x, y)) return NULL;
    const cj_examples rows = { .n = cj_size(x, 0), .x = x, .y = y };
    return make(c, &rows, CJ_EXAMPLES_ROWS, o->augment, &(cj_images){ 1, o->channels, o->height, o->width },
                o->scale != 0 ? o->scale : 1.0 / 255, o);
}

cj_loader *cj_loader_of(cj_ctx *c, const cj_examples *e, const cj_loader_opts *opts)
{
    if (!c || !cj__cancel_check(c)) return NULL;
    cj_examples_kind kind = e && e->n > 0 ? cj__examples_kind(e) : CJ_EXAMPLES_OTHER;
    if (kind == CJ_EXAMPLES_OTHER) {
        cj__error(c, CJ_EVALUE, "cj_loader_of: examples of rows, images, a text or pairs were expected");
        return NULL;
    }
    if (!cj__usable(c, "cj_loader_of", 0, e->x) || (kind != CJ_EXAMPLES_TEXT && !cj__usable(c, "cj_loader_of", 1, e->y))) return NULL;
    return make(c, e, kind, kind == CJ_EXAMPLES_IMAGES ? &e->augment : NULL, &(cj_images){ 1, e->channels, e->height, e->width }, 0,
                opts ? opts : &defaults);
}

bool cj_examples_of_loader(cj_loader *l, cj_examples *out)
{
    *out = (cj_examples){ .batch = loader_batch, .user = l };
    if (!l) return false;
    out->n = l->n;
    return true;
}

int64_t cj_loader_hits(const cj_loader *l) { return l ? l->hits : 0; }
