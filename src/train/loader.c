/* Batches prepared ahead of the loop.
 *
 * The order of an epoch is a pure function (cj_data_order) and so is what happens to a row in it, so threads can prepare batch k+1, k+2, … while the loop computes
 * batch k.  Batch number t is made in slot t mod `ahead`; a thread takes the next number when its slot has been used up, so the queue is bounded.  When the
 * loop asks for other rows than the next batch has (its first batch, a resumed run, an evaluation), they are prepared on the spot and, if they are a batch of the
 * epoch, the threads go on from there.  The threads touch no context: memory is asked for once, at the beginning.
 */
#include <pthread.h>

#include "core/host.h"
#include "data/augment.h"
#include "train/train.h"

enum { MOST_AHEAD = 64, MOST_THREADS = 16 };

typedef enum state { EMPTY, BUSY, READY } state;

typedef struct slot {
    state state;
    int64_t number, epoch, count; /* which batch, and its rows */
    int64_t *row;
    float *x;
    char *y;
} slot;

struct cj_loader {
    cj_object object;
    cj_ctx *ctx;
    cj_tensor *x, *y;
    cj_host host_x, host_y;
    bool open_x, open_y, bytes; /* bytes: x is u8 */
    int64_t n, features, batch, ahead;
    size_t y_bytes; /* of a row */
    float scale;
    cj_augment_opts augment;
    bool augmented;
    cj_images image;
    uint64_t seed;
    void *memory;
    size_t memory_bytes;
    slot slot[MOST_AHEAD + 1]; /* the last one is the caller's */
    float *room[MOST_THREADS + 1];

    /* shared with the threads, under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread[MOST_THREADS];
    int threads, busy;
    bool stop, running;  /* running: the threads know where to go on */
    int64_t first, next; /* the loop's next batch, the threads' next; counted from batch 0 of epoch 0 */
    int64_t *order;      /* of order_epoch */
    int64_t order_epoch;
    int64_t hits;
};

/* ---- one batch --------------------------------------------------------------------------------------------------------------------------------- */

static void prepare(const cj_loader *l, slot *s, float *room)
{
    cj_augment_opts o = l->augment;
    o.seed = l->seed;
    o.epoch = s->epoch;
    for (int64_t i = 0; i < s->count; i++) {
        float *out = s->x + i * l->features;
        int64_t from = s->row[i] * l->features;
        if (l->bytes) {
            const unsigned char *in = (const unsigned char *)l->host_x.view.data + from;
            for (int64_t k = 0; k < l->features; k++) out[k] = (float)in[k] * l->scale;
        } else memcpy(out, (const float *)l->host_x.view.data + from, (size_t)l->features * sizeof *out);
        if (l->augmented) cj__augment_image(out, room, &l->image, &o, s->row[i]);
        memcpy(s->y + (size_t)i * l->y_bytes, (const char *)l->host_y.view.data + (size_t)s->row[i] * l->y_bytes, l->y_bytes);
    }
}

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

static void *work(void *arg)
{
    cj_loader *l = arg;
    pthread_mutex_lock(&l->lock);
    float *room = l->room[l->busy++]; /* while they start, busy counts the threads */
    pthread_cond_broadcast(&l->changed);
    for (;;) {
        slot *s = &l->slot[l->next % l->ahead];
        if (l->stop) break;
        if (!l->running || s->state != EMPTY) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        plan(l, s, l->next++);
        s->state = BUSY;
        pthread_mutex_unlock(&l->lock);
        prepare(l, s, room);
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
    for (int64_t i = 0; i < l->ahead; i++) {
        while (l->slot[i].state == BUSY) pthread_cond_wait(&l->changed, &l->lock);
        l->slot[i].state = EMPTY;
    }
    l->first = l->next = number;
    l->running = true;
    pthread_cond_broadcast(&l->changed);
}

/* The slot where the wanted rows were prepared ahead; NULL: they were not.  Under the lock. */
static slot *prepared(cj_loader *l, int64_t epoch, const int64_t *row, int64_t count)
{
    if (!l->running) return NULL;
    slot *s = &l->slot[l->first % l->ahead];
    while (s->state != READY) pthread_cond_wait(&l->changed, &l->lock); /* a thread always takes the loop's next batch */
    bool same = s->number == l->first && s->epoch == epoch && s->count == count && memcmp(s->row, row, (size_t)count * sizeof *row) == 0;
    return same ? s : NULL;
}

static bool deliver(cj_loader *l, const slot *s, cj_tensor **x, cj_tensor **y)
{
    cj_shape a = cj_shape_of(l->x), b = cj_shape_of(l->y);
    a.dim[0] = b.dim[0] = s->count;
    *x = cj_from_data(l->ctx, s->x, CJ_F32, a);
    *y = cj_from_data(l->ctx, s->y, cj_dtype_of(l->y), b);
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

/* Rows that no thread had ready, `batch` at a time; rows beyond the caller's slot (a larger batch than the loader's) go in pieces. */
static bool on_the_spot(cj_loader *l, int64_t epoch, const int64_t *row, int64_t count, cj_tensor **x, cj_tensor **y)
{
    slot *s = &l->slot[MOST_AHEAD];
    *x = *y = NULL;
    for (int64_t at = 0; at < count; at += s->count) {
        cj_tensor *part[2];
        s->epoch = epoch;
        s->count = count - at < l->batch ? count - at : l->batch;
        memcpy(s->row, row + at, (size_t)s->count * sizeof *row);
        prepare(l, s, l->room[MOST_THREADS]);
        if (!deliver(l, s, &part[0], &part[1])) return false;
        *x = at ? cj_cat((cj_tensor *[]){ *x, part[0] }, 2, 0) : part[0];
        *y = at ? cj_cat((cj_tensor *[]){ *y, part[1] }, 2, 0) : part[1];
    }
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
        slot *s = prepared(l, epoch, row, count);
        pthread_mutex_unlock(&l->lock);
        if (s) { /* READY slots are the caller's alone */
            ahead = true;
            ok = deliver(l, s, x, y);
        }
        pthread_mutex_lock(&l->lock);
        if (s) {
            s->state = EMPTY;
            l->first++;
            l->hits++;
            pthread_cond_broadcast(&l->changed);
        } else {
            int64_t number = number_of(l, epoch, row, count);
            if (number >= 0) go_on_from(l, number + 1);
        }
        pthread_mutex_unlock(&l->lock);
    }
    if (ok && !ahead) ok = on_the_spot(l, epoch, row, count, x, y);
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

static bool fits(cj_ctx *c, cj_tensor *x, cj_tensor *y, const cj_loader_opts *o)
{
    if (cj_ndim(x) < 1 || cj_ndim(y) < 1 || cj_size(x, 0) != cj_size(y, 0) || cj_size(x, 0) < 1)
        return cj__error(c, CJ_ESHAPE, "cj_loader_new: x and y with equally many rows were expected, %s and %s were found",
                         cj__tensor_text(x), cj__tensor_text(y));
    if (cj_dtype_of(x) != CJ_F32 && cj_dtype_of(x) != CJ_U8)
        return cj__error(c, CJ_EDTYPE, "cj_loader_new: x of f32 or u8 was expected, %s was found", cj_dtype_name(cj_dtype_of(x)));
    if (!cj_is_contiguous(x) || !cj_is_contiguous(y))
        return cj__error(c, CJ_ESHAPE, "cj_loader_new: x and y must be contiguous (cj_contiguous)");
    if (o->batch < 0 || o->ahead < 0 || o->ahead > MOST_AHEAD || o->threads < -1 || o->threads > MOST_THREADS)
        return cj__error(c, CJ_EVALUE,
                         "cj_loader_new: a batch, at most %d ahead and -1 to %d threads were expected, %lld, %lld and %d were found",
                         MOST_AHEAD, MOST_THREADS, (long long)o->batch, (long long)o->ahead, o->threads);
    return true;
}

static bool find_images(cj_loader *l, const cj_loader_opts *o)
{
    if (!o->augment) return true;
    bool four = cj_ndim(l->x) == 4;
    l->image =
        four ? (cj_images){ 1, cj_size(l->x, 1), cj_size(l->x, 2), cj_size(l->x, 3) } : (cj_images){ 1, o->channels, o->height, o->width };
    if (l->image.channels < 1 || l->image.height < 1 || l->image.width < 1 || cj__image_size(&l->image) != l->features)
        return cj__error(
            l->ctx, CJ_ESHAPE,
            "cj_loader_new: rows of channels x height x width were expected to augment, %lld x %lld x %lld and x %s were found",
            (long long)l->image.channels, (long long)l->image.height, (long long)l->image.width, cj__tensor_text(l->x));
    l->augment = *o->augment;
    l->augmented = true;
    return cj__augment_allowed(l->ctx, &l->augment, &l->image);
}

/* One block of memory for all slots, orders and rooms. */
static bool get_memory(cj_loader *l)
{
    size_t rows = (size_t)l->batch, x = (rows * (size_t)l->features * sizeof(float) + 63) / 64 * 64, y = (rows * l->y_bytes + 63) / 64 * 64;
    size_t row = (rows * sizeof(int64_t) + 63) / 64 * 64, order = ((size_t)l->n * sizeof(int64_t) + 63) / 64 * 64;
    size_t room = l->augmented ? ((size_t)l->features * sizeof(float) + 63) / 64 * 64 : 0;
    size_t slots = (size_t)l->ahead + 1, rooms = MOST_THREADS + 1;
    l->memory_bytes = slots * (x + y + row) + order + rooms * room;
    char *at = l->memory = cj__alloc(l->ctx, l->memory_bytes);
    if (!at) return false;
    for (size_t i = 0; i < slots; i++) {
        slot *s = &l->slot[i + 1 == slots ? MOST_AHEAD : i];
        s->x = (float *)(void *)at;
        s->y = at + x;
        s->row = (int64_t *)(void *)(at + x + y);
        at += x + y + row;
    }
    l->order = (int64_t *)(void *)at;
    at += order;
    for (size_t i = 0; i < rooms; i++, at += room) l->room[i] = (float *)(void *)at;
    return true;
}

/* As many as can be had; with none of them everything is done when it is asked for. */
static void start(cj_loader *l, int wanted)
{
    while (l->threads < wanted && pthread_create(&l->thread[l->threads], NULL, work, l) == 0) l->threads++;
    pthread_mutex_lock(&l->lock);
    while (l->busy < l->threads) pthread_cond_wait(&l->changed, &l->lock); /* each has its room */
    pthread_mutex_unlock(&l->lock);
}

cj_loader *cj_loader_new(cj_tensor *x, cj_tensor *y, const cj_loader_opts *opts)
{
    static const cj_loader_opts defaults;
    const cj_loader_opts *o = opts ? opts : &defaults;
    cj_ctx *c = cj_tensor_ctx(x);
    if (!c || !cj__usable(c, "cj_loader_new", 0, x) || !cj__usable(c, "cj_loader_new", 1, y) || !fits(c, x, y, o)) return NULL;
    cj_loader *l = cj__zalloc(c, sizeof *l);
    if (!l) return NULL;
    l->ctx = c;
    l->x = x;
    l->y = y;
    l->n = cj_size(x, 0);
    l->features = cj_numel(x) / l->n;
    l->y_bytes = (size_t)(cj_numel(y) / l->n) * cj_dtype_size(cj_dtype_of(y));
    l->bytes = cj_dtype_of(x) == CJ_U8;
    l->scale = o->scale != 0 ? (float)o->scale : 1.0f / 255;
    l->batch = o->batch ? o->batch : 32;
    if (l->batch > l->n) l->batch = l->n;
    l->ahead = o->ahead ? o->ahead : 4;
    l->seed = c->rng.seed;
    l->order_epoch = -1;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->open_x = cj__host_open(&l->host_x, x, "cj_loader_new");
    l->open_y = l->open_x && cj__host_open(&l->host_y, y, "cj_loader_new");
    if (!l->open_y || !find_images(l, o) || !get_memory(l)) {
        loader_free(&l->object);
        return NULL;
    }
    start(l, o->threads < 0 ? 0 : o->threads ? o->threads : 1);
    cj__object_add(c, &l->object, loader_free);
    return l;
}

bool cj_examples_of_loader(cj_loader *l, cj_examples *out)
{
    *out = (cj_examples){ .batch = loader_batch, .user = l };
    if (!l) return false;
    out->n = l->n;
    return true;
}

int64_t cj_loader_hits(const cj_loader *l) { return l ? l->hits : 0; }
