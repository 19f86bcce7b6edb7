/* augmentation: what a network learns from changed copies of its examples, on the 8 x 8 digits, each mean over a few seeds.
 *
 *   invariance   a perceptron that saw digits in the middle only does not know them elsewhere; with shifted copies it does, for many times the examples, and a
 *                convolutional network, which has the invariance built in, stays ahead of it
 *   flips        what is the thing, facing left or right, and what its reflection in water? Mirrored left and right both stay what they are, top and bottom each
 *                becomes the other
 *   strength     for digits that lie askew (by up to 25 degrees) turned copies help up to some angle and harm beyond it: half a turn makes a 6 a 9; a set of n
 *                things has n! orders to learn
 */
#include "lab/lab.h"

#include <math.h>
#include <stdlib.h>

enum { SIDE = 14, PIXELS = SIDE * SIDE, MARGIN = 3 };

typedef struct set {
    cj_tensor *x, *y, *test_x, *test_y; /* images [n, 1, h, h] */
} set;

/* ---- training ------------------------------------------------------------------------------------------------------------------------------------ */

static cj_module *perceptron(cj_ctx *c, int64_t in, int64_t hidden, int64_t classes)
{
    return cj_sequential(c, cj_flatten_layer(c), cj_linear(c, in, hidden), cj_relu_layer(c), cj_linear(c, hidden, classes));
}

/* Two layers of 3 x 3 and the largest value of every map: where a stroke stands changes nothing. */
static cj_module *convolutional(cj_ctx *c)
{
    return cj_sequential(c, cj_conv_layer(c, 1, 12, CJ_SHAPE(3, 3)), cj_relu_layer(c), cj_conv_layer(c, 12, 32, CJ_SHAPE(3, 3)),
                         cj_relu_layer(c), cj_global_max_pool_layer(c), cj_flatten_layer(c), cj_linear(c, 32, 10));
}

static double accuracy(cj_module *net, cj_tensor *x, cj_tensor *y)
{
    cj_ctx *c = cj_tensor_ctx(x);
    cj_scope s = cj_scope_open(c);
    double found = cj_accuracy(cj_forward(net, x), y);
    cj_scope_close(s);
    return found;
}

/* `steps` steps of Adam on batches of 64, each example changed anew.  With `enough` it stops when the test rows reach it; the examples that it saw. */
static double train(cj_module *net, const set *s, const cj_augment_opts *how, int steps, double enough)
{
    enum { BATCH = 64 };
    cj_ctx *c = cj_tensor_ctx(s->x);
    cj_optim *opt = cj_adam(cj_module_params(net), .lr = 0.003);
    int64_t n = cj_size(s->x, 0), at = 0;
    double seen = 0;
    for (int t = 0; t < steps && cj_ok(c); t++) {
        cj_scope scope = cj_scope_open(c);
        int64_t to = at + BATCH < n ? at + BATCH : n, samples[BATCH];
        for (int64_t i = at; i < to; i++) samples[i - at] = i;
        cj_augment_opts o = *how;
        o.epoch = t;
        o.samples = samples;
        cj_tensor *x = cj_slice(s->x, 0, at, to, 1);
        cj_minimise(opt, cj_cross_entropy(cj_forward(net, (cj_augment)(x, &o)), cj_slice(s->y, 0, at, to, 1)));
        seen += (double)(to - at);
        at = to < n ? to : 0;
        cj_scope_close(scope);
        if (enough > 0 && t % 20 == 19 && accuracy(net, s->test_x, s->test_y) >= enough) break;
    }
    cj_optim_free(opt);
    return seen;
}

/* Rows of some classes (10: all), at most `most` of each, as images with `margin` empty pixels around them; keep: until the context goes. */
static cj_tensor *images(cj_ctx *c, cj_tensor *rows, cj_tensor *labels, const int *class, int classes, int64_t most, int margin,
                         cj_tensor **y)
{
    int64_t n = cj_size(rows, 0), kept = 0, count[10] = { 0 }, side = 8 + 2 * margin;
    float *from = malloc((size_t)n * 64 * sizeof *from), *to = calloc((size_t)(n * side * side), sizeof *to);
    int64_t *label = malloc((size_t)n * sizeof *label);
    if (from && to && label && cj_to_f32(rows, from, n * 64) && cj_to_i64(labels, label, n))
        for (int64_t i = 0; i < n; i++) {
            int k = 0;
            while (k < classes && class[k] != label[i]) k++;
            if (k == classes || count[k]++ >= most) continue;
            for (int p = 0; p < 64; p++) to[(kept * side + margin + p / 8) * side + margin + p % 8] = from[i * 64 + p];
            label[kept++] = k;
        }
    cj_tensor *x = cj_keep(cj_from_f32(c, to, CJ_SHAPE(kept, 1, side, side)));
    *y = cj_keep(cj_from_i64(c, label, CJ_SHAPE(kept)));
    free(from), free(to), free(label);
    return x;
}

static const int all_classes[10] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 };

static set digits(cj_ctx *c, const int *class, int classes, int64_t most, int margin, uint64_t seed)
{
    cj_dataset *d = cj_dataset_open(c, "digits", .seed = seed);
    set s = { 0 };
    if (!d) return s;
    s.x = images(c, d->train_x, d->train_y, class, classes, most, margin, &s.y);
    s.test_x = images(c, d->test_x, d->test_y, class, classes, INT64_MAX, margin, &s.test_y);
    cj_dataset_free(d);
    return s;
}

/* ---- what is found --------------------------------------------------------------------------------------------------------------------------------- */

static void invariance(cj_ctx *c, cj_lab_record *r, bool control)
{
    set s = digits(c, all_classes, 10, INT64_MAX, MARGIN, 1);
    cj_augment_opts none = { .seed = 5 }, shift = { .seed = 5, .pad = control ? 0 : MARGIN };
    set moved = s;
    moved.test_x = cj_keep(cj_augment(s.test_x, .seed = 99, .pad = MARGIN)); /* every shift of at most 3 pixels is as likely */
    cj_module *plain = perceptron(c, PIXELS, 64, 10), *taught = perceptron(c, PIXELS, 64, 10), *built_in = convolutional(c);
    train(plain, &s, &none, 600, 0);
    double middle = accuracy(plain, s.test_x, s.test_y), without = accuracy(plain, moved.test_x, moved.test_y);
    train(taught, &s, &shift, 2400, 0);
    double with = accuracy(taught, moved.test_x, moved.test_y);
    train(built_in, &s, &shift, 600, 0);
    double convolution = accuracy(built_in, moved.test_x, moved.test_y);
    double cheap = train(perceptron(c, PIXELS, 64, 10), &s, &none, 2400, 0.85),
           dear = train(perceptron(c, PIXELS, 64, 10), &moved, &shift, 2400, 0.85),
           fair = train(convolutional(c), &moved, &shift, 2400, 0.85);
    cj_lab_say(
        r, "right answers on shifted digits: perceptron %.1f %%, with shifted copies %.1f %%, convolutional %.1f %%; in the middle %.1f %%",
        100 * without, 100 * with, 100 * convolution, 100 * middle);
    cj_lab_say(r, "examples until 85 %%: %.0f in the middle; shifted %.0f, convolutional %.0f", cheap, dear, fair);
    cj_lab_expect_at_least(r, "digits in the middle are known", 0.93, middle);
    cj_lab_expect_at_least(r, "of shifted ones most are not", 0.6, 1 - without);
    cj_lab_expect_at_least(r, "with shifted copies they are", 0.85, with);
    cj_lab_expect_at_least(r, "and not better than by convolution", 0, convolution - with);
    cj_lab_expect_at_least(r, "which takes several times the examples", 3, dear / cheap);
}

/* Every image, on request facing both ways, and as class 1 its reflection. */
static void add_reflections(cj_tensor **x, cj_tensor **y, bool both_ways)
{
    cj_ctx *c = cj_tensor_ctx(*x);
    if (both_ways) *x = cj_cat((cj_tensor *[]){ *x, cj_mirror(*x, false) }, 2, 0);
    int64_t n = cj_size(*x, 0);
    *x = cj_keep(cj_cat((cj_tensor *[]){ *x, cj_mirror(*x, true) }, 2, 0));
    *y = cj_keep(cj_cat((cj_tensor *[]){ cj_zeros(c, CJ_SHAPE(n), CJ_I64), cj_ones(c, CJ_SHAPE(n), CJ_I64) }, 2, 0));
}

static void flips(cj_ctx *c, cj_lab_record *r, bool control)
{
    enum { SEEDS = 5 };
    static const int things[] = { 4, 7 };
    double found[3] = { 0 };
    for (int seed = 1; seed <= SEEDS; seed++) {
        set s = digits(c, things, 2, 16, 0, (uint64_t)seed);
        add_reflections(&s.x, &s.y, false);
        add_reflections(&s.test_x, &s.test_y, true);
        for (int k = 0; k < 3; k++) {
            cj_augment_opts how = { .seed = (uint64_t)seed,
                                    .flip = k == 1 && !control ? 0.5 : 0,
                                    .flip_vertical = k == 2 && !control ? 0.5 : 0 };
            cj_seed(c, (uint64_t)seed);
            cj_module *net = perceptron(c, 64, 32, 2);
            train(net, &s, &how, 200, 0);
            found[k] += accuracy(net, s.test_x, s.test_y) / SEEDS;
        }
    }
    cj_lab_say(r,
               "4 and 7 or their reflections in water, from 64 examples: %.1f %%; with left and right mirrored %.1f %%; with top and "
               "bottom %.1f %%",
               100 * found[0], 100 * found[1], 100 * found[2]);
    cj_lab_expect_at_least(r, "left and right mirrored keeps or raises it", found[0], found[1]);
    cj_lab_expect_at_least(r, "top and bottom mirrored lowers it by 20 % or more", 0.2, found[0] - found[2]);
}

/* Puts every order of thing[0 … n) into `seen` by its number in the alphabet (B. Heap 1963: a swap leads to the next); how many were new. */
static int64_t orders(int *thing, int n, int all, bool *seen)
{
    if (n <= 1) {
        int64_t number = 0;
        for (int i = 0; i < all; i++) {
            int smaller = 0;
            for (int j = i + 1; j < all; j++) smaller += thing[j] < thing[i];
            number = number * (all - i) + smaller;
        }
        return seen[number] ? 0 : (seen[number] = true);
    }
    int64_t count = 0;
    for (int i = 0; i < n; i++) {
        count += orders(thing, n - 1, all, seen);
        int other = n % 2 ? 0 : i, t = thing[other];
        thing[other] = thing[n - 1];
        thing[n - 1] = t;
    }
    return count;
}

static void strength(cj_ctx *c, cj_lab_record *r, bool control)
{
    enum { ANGLES = 5, SEEDS = 4 };
    static const double angle[ANGLES] = { 0, 15, 30, 90, 180 };
    double found[ANGLES] = { 0 }, mistaken[ANGLES] = { 0 };
    for (int seed = 1; seed <= SEEDS; seed++) {
        set s = digits(c, all_classes, 10, 10, 0, (uint64_t)seed);
        s.test_x = cj_keep(cj_augment(s.test_x, .seed = 77, .rotate = 25)); /* as they lie on a table */
        for (int k = 0; k < ANGLES; k++) {
            cj_augment_opts how = { .seed = (uint64_t)seed, .rotate = control ? 0 : angle[k] };
            cj_seed(c, (uint64_t)seed);
            cj_module *net = perceptron(c, 64, 64, 10);
            train(net, &s, &how, 500, 0);
            found[k] += accuracy(net, s.test_x, s.test_y) / SEEDS;
            cj_scope scope = cj_scope_open(c);
            cj_tensor *confusion = cj_confusion_matrix(cj_argmax(cj_forward(net, s.test_x), .axes = CJ_AXIS(-1)), s.test_y, 10);
            mistaken[k] += cj_at(confusion, (int64_t[]){ 6, 9 }) + cj_at(confusion, (int64_t[]){ 9, 6 });
            cj_scope_close(scope);
        }
    }
    int best = 0;
    for (int k = 0; k < ANGLES; k++) {
        cj_lab_say(r, "100 digits, turned by up to %3.0f degrees: %.1f %% of those askew right, 6 and 9 mistaken %.0f times", angle[k],
                   100 * found[k], mistaken[k]);
        if (found[k] > found[best]) best = k;
    }
    cj_lab_expect_at_least(r, "the best angle is not the smallest", 0.01, found[best] - found[0]);
    cj_lab_expect_at_least(r, "nor the largest", 0.05, found[best] - found[ANGLES - 1]);
    cj_lab_expect_at_least(r, "half a turn makes a 6 a 9", 10, mistaken[ANGLES - 1] - mistaken[best]);
    int thing[6] = { 0, 1, 2, 3, 4, 5 };
    bool seen[720] = { false };
    cj_lab_expect(r, "a set of 6 things has 6! copies to learn from", 720, (double)orders(thing, 6, 6, seen), 0);
    if (!cj_lab_wants_pictures(r)) return;
    cj_plot *p = cj_plot_new(c, "Turned copies of 100 digits");
    cj_plot_labels(p, "degrees at most", "right answers on digits askew");
    cj_plot_line(p, NULL, angle, found, ANGLES);
    cj_plot_points(p, NULL, angle, found, ANGLES);
    cj_lab_picture(r, c, p, "angles");
}

static void run(cj_ctx *c, cj_lab_record *r, bool control)
{
    cj_seed(c, 3);
    invariance(c, r, control);
    flips(c, r, control);
    strength(c, r, control);
}

const cj_lab cj_lab_augmentation = {
    .name = "augmentation",
    .claim = "changed copies teach what does not matter: shifts at the price of many examples, mirror images but not reflections in water, "
             "turns up to some angle",
    .source = "P. Simard, D. Steinkraus, J. Platt 2003; C. Shorten, T. Khoshgoftaar 2019",
    .control = "changes no image",
    .run = run,
};
