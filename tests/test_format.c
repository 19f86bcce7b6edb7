/* Printing, byte for byte against PyTorch: tests/fixtures/print.txt (tools/fixtures_print.py), or the file named by $CAJAL_PRINT_CASES. */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cajal/core.h>
#include <cajal/ops.h>

#include "core/core.h"

static char *text_of(cj_tensor *t)
{
    size_t n = cj_format(t, NULL, 0);
    char *text = malloc(n + 1);
    assert_int_equal(cj_format(t, text, n + 1), n);
    assert_int_equal(strlen(text), n);
    return text;
}

static void expect(cj_tensor *t, const char *text)
{
    char *found = text_of(t);
    assert_string_equal(found, text);
    free(found);
}

/* ---- the fixture --------------------------------------------------------------------------------------------------------------------------- */

static cj_dtype dtype_by_name(const char *name)
{
    for (int i = 1; i < CJ_DTYPES; i++)
        if (strcmp(cj_dtype_name((cj_dtype)i), name) == 0) return (cj_dtype)i;
    fail_msg("dtype %s", name);
    return CJ_F32;
}

static cj_shape read_shape(const char *s)
{
    cj_shape shape = CJ_SCALAR;
    if (*s == '-') return shape;
    for (char *end; *s; s = *end ? end + 1 : end) shape.dim[shape.ndim++] = strtoll(s, &end, 10);
    return shape;
}

static void read_values(const char *s, cj_dtype dtype, void *out, int64_t n)
{
    size_t size = cj_dtype_size(dtype);
    if (strncmp(s, "hex:", 4) == 0) {
        assert_int_equal(strlen(s + 4), 2 * (size_t)n * size);
        for (size_t i = 0; i < (size_t)n * size; i++) {
            unsigned byte;
            assert_int_equal(sscanf(s + 4 + 2 * i, "%2x", &byte), 1);
            ((unsigned char *)out)[i] = (unsigned char)byte;
        }
        return;
    }
    double start, step;
    assert_int_equal(sscanf(s, "seq:%lf:%lf", &start, &step), 2);
    for (int64_t i = 0; i < n; i++) {
        double v = start + step * (double)i;
        if (dtype == CJ_U8) v = (uint8_t)(int64_t)v; /* PyTorch's casts wrap, ours saturate */
        cj__store(dtype, (char *)out + (size_t)i * size, v);
    }
}

static void tensor_print_like_pytorch(void **state)
{
    (void)state;
    const char *path = getenv("CAJAL_PRINT_CASES");
    FILE *f = fopen(path ? path : "tests/fixtures/print.txt", "rb");
    assert_non_null(f);
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    char *line = NULL;
    size_t room = 0;
    int cases = 0;
    while (getline(&line, &room, f) > 0) {
        cj_scope s = cj_scope_open(c);
        char name[8], sizes[128];
        int at = 0;
        assert_int_equal(sscanf(line, "%7s %127s %n", name, sizes, &at), 2);
        line[strcspn(line, "\n")] = 0;
        cj_dtype dtype = dtype_by_name(name);
        cj_shape shape = read_shape(sizes);
        int64_t n = cj__numel(c, "test", shape.ndim, shape.dim);
        char *values = malloc((size_t)n * 8 + 1);
        read_values(line + at, dtype, values, n);
        cj_tensor *t = cj_from_data(c, values, dtype, shape);
        free(values);

        size_t length;
        assert_int_equal(fscanf(f, "%zu\n", &length), 1);
        char *text = malloc(length + 1);
        assert_int_equal(fread(text, 1, length, f), length);
        text[length] = 0;
        assert_int_equal(fgetc(f), '\n');
        expect(t, text);
        free(text);
        cj_scope_close(s);
        cases++;
    }
    assert_true(cases > 100);
    free(line);
    fclose(f);
    cj_ctx_free(c);
}

/* ---- the example of the course, the shape, and the edges of the interface ------------------------------------------------------------------------- */

static void tensor_print_example(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    expect(cj_from_f32(c, (float[]){ 0.3342f, 0.8208f, 0.3765f, 0.1820f }, CJ_SHAPE(4)), "tensor([0.3342, 0.8208, 0.3765, 0.1820])");
    expect(cj_from_f32(c, (float[]){ 1, 2, 3, 4.5f, 5, 6 }, CJ_SHAPE(2, 3)),
           "tensor([[1.0000, 2.0000, 3.0000],\n        [4.5000, 5.0000, 6.0000]])");
    char shape[64];
    assert_int_equal(cj_format_shape(cj_zeros(c, CJ_SHAPE(5, 10), CJ_F32), shape, sizeof shape), strlen("Size([5, 10])"));
    assert_string_equal(shape, "Size([5, 10])");
    cj_format_shape(cj_scalar(c, 1), shape, sizeof shape);
    assert_string_equal(shape, "Size([])");
    assert_true(cj_ok(c));
    cj_ctx_free(c);
}

static void tensor_print_strided(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *t = cj_from_i64(c, (int64_t[]){ 1, 2, 3, 4, 5, 6 }, CJ_SHAPE(2, 3));
    expect(cj_t(t), "tensor([[1, 4],\n        [2, 5],\n        [3, 6]])");
    expect(cj_slice(t, 1, 2, CJ_END, 1), "tensor([[3],\n        [6]])");
    expect(cj_expand(cj_scalar(c, 2), CJ_SHAPE(2, 2)), "tensor([[2., 2.],\n        [2., 2.]])");
    assert_true(cj_ok(c));
    cj_ctx_free(c);
}

static void short_memory_is_respected(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    cj_tensor *t = cj_from_f32(c, (float[]){ 1, 2 }, CJ_SHAPE(2));
    const char *whole = "tensor([1., 2.])";
    for (size_t n = 0; n < 24; n++) {
        char out[32];
        memset(out, '#', sizeof out);
        assert_int_equal(cj_format(t, out, n), strlen(whole));
        for (size_t i = 0; i < sizeof out; i++) {
            size_t shown = n == 0 ? 0 : n - 1 < strlen(whole) ? n - 1 : strlen(whole);
            char want = i < shown ? whole[i] : i == shown && n ? 0 : '#';
            assert_int_equal(out[i], want);
        }
    }
    cj_ctx_free(c);
}

static void print_writes_a_file(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    assert_true(cj_print(cj_scalar(c, 0.5), f));
    fclose(f);
    assert_string_equal(text, "tensor(0.5000)\n");
    free(text);
    f = fopen("/dev/full", "w");
    if (f) {
        setvbuf(f, NULL, _IONBF, 0);
        assert_false(cj_print(cj_scalar(c, 0.5), f));
        assert_int_equal(cj_error(c), CJ_EFILE);
        fclose(f);
    }
    cj_ctx_free(c);
}

static void poison_prints_nothing(void **state)
{
    (void)state;
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    char out[8] = "#";
    assert_int_equal(cj_format(NULL, out, sizeof out), 0);
    assert_string_equal(out, "");
    cj_tensor *bad = cj_fail(c, CJ_EVALUE, "test");
    assert_int_equal(cj_format(bad, out, sizeof out), 0);
    assert_false(cj_print(bad, stdout));
    cj_clear(c);
    assert_int_equal(cj_format(bad, out, sizeof out), 0);
    assert_int_equal(cj_error(c), CJ_ESTALE);
    cj_ctx_free(c);
}

static void expect_point(const char *from, const char *to)
{
    char text[40];
    int n = snprintf(text, sizeof text, "%s", from);
    assert_int_equal(cj__plain_point(text, n), strlen(to));
    assert_string_equal(text, to);
}

static void other_decimal_points(void **state)
{
    (void)state;
    expect_point("-0,5", "-0.5");
    expect_point("1,25e-09", "1.25e-09");
    expect_point("3\xd9\xab"
                 "14",
                 "3.14"); /* Arabic, two bytes */
    expect_point("+7,0", "+7.0");
    expect_point("12", "12");
    expect_point("1e+20", "1e+20");
    expect_point("2.5", "2.5");
    expect_point("-inf", "-inf");
    expect_point("nan", "nan");
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "de_DE")) skip();
    cj_ctx *c = cj_ctx_new(&(cj_ctx_opts){ .threads = 1 });
    expect(cj_from_f32(c, (float[]){ -0.5f, 12.25f }, CJ_SHAPE(2)), "tensor([-0.5000, 12.2500])");
    expect(cj_from_f32(c, (float[]){ 1e-9f }, CJ_SHAPE(1)), "tensor([1.0000e-09])");
    setlocale(LC_NUMERIC, "C");
    cj_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        { "tensor.print: as PyTorch prints", tensor_print_like_pytorch, NULL, NULL, NULL },
        { "tensor.print: the example of the course", tensor_print_example, NULL, NULL, NULL },
        { "tensor.print: strided tensors", tensor_print_strided, NULL, NULL, NULL },
        cmocka_unit_test(short_memory_is_respected),
        cmocka_unit_test(print_writes_a_file),
        cmocka_unit_test(poison_prints_nothing),
        cmocka_unit_test(other_decimal_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
