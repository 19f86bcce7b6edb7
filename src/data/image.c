/* PNG by libpng and JPEG by libjpeg, from memory.  Their error handlers are replaced by one that leaves through longjmp with a sentence; sizes are compared
 * with what so many bytes can hold before pixels get memory.
 */
#include <math.h>
#include <setjmp.h>
#include <stdio.h>

#include "cajal/ops.h"
#include "data/bytes.h"
#include "data/zip.h"

#if defined CJ_HAVE_PNG
#include <png.h>
#endif
#if defined CJ_HAVE_JPEG
#include <jerror.h>
#include <jpeglib.h>
#endif

#if defined CJ_HAVE_PNG || defined CJ_HAVE_JPEG
#define MAX_PIXELS ((size_t)1 << 26)

/* What both decoders fill: rows of interleaved channels. */
typedef struct decoder {
    jmp_buf escape; /* first */
    const cj_bytes *b;
    size_t at; /* how far the file was read */
    size_t width, height, channels;
    unsigned char *pixels; /* [height, width, channels] */
    char message[256];
} decoder;

static size_t pixel_bytes(const decoder *d) { return d->width * d->height * d->channels; }

/* Memory for the pixels, if so few bytes (`ratio` pixels each at most) can hold so many. */
static bool pixels_alloc(decoder *d, size_t ratio)
{
    size_t n = d->width * d->height;
    if (!n || n > MAX_PIXELS || n / ratio > d->b->n)
        return cj__bytes_error(d->b, 0, "an image that %zu bytes can hold was expected, %zu x %zu pixels were found", d->b->n, d->height,
                               d->width);
    return (d->pixels = cj__alloc(d->b->ctx, pixel_bytes(d))) != NULL;
}

/* Hands over the pixels as [channels, height, width]. */
static bool finish(decoder *d, bool ok, cj_pixels *out)
{
    cj_ctx *c = d->b->ctx;
    if (!ok && cj_ok(c)) cj__bytes_error(d->b, d->at, "a whole image was expected%s%s", *d->message ? "; " : "", d->message);
    size_t area = d->width * d->height;
    unsigned char *planes = ok ? cj__alloc(c, pixel_bytes(d)) : NULL;
    for (size_t k = 0; planes && k < d->channels; k++)
        for (size_t i = 0; i < area; i++) planes[k * area + i] = d->pixels[i * d->channels + k];
    if (d->pixels) cj__free(c, d->pixels, pixel_bytes(d));
    *out = (cj_pixels){ c, (int64_t)d->channels, (int64_t)d->height, (int64_t)d->width, planes };
    return planes != NULL;
}
#endif

void cj__pixels_free(cj_pixels *p)
{
    if (p->data) cj__free(p->ctx, p->data, (size_t)(p->channels * p->height * p->width));
    p->data = NULL;
}

/* ---- PNG -------------------------------------------------------------------------------------------------------------------------------------- */

#if defined CJ_HAVE_PNG
static void png_failed(png_structp png, png_const_charp message)
{
    decoder *d = png_get_error_ptr(png);
    snprintf(d->message, sizeof d->message, "libpng: %s", message);
    longjmp(d->escape, 1);
}

static void png_ignored(png_structp png, png_const_charp message) { (void)png, (void)message; }

static void png_bytes(png_structp png, png_bytep out, size_t n)
{
    decoder *d = png_get_io_ptr(png);
    if (n > d->b->n - d->at) {
        d->at = d->b->n;
        png_error(png, "the file ends early");
    }
    memcpy(out, d->b->data + d->at, n);
    d->at += n;
}

static png_voidp png_memory(png_structp png, png_alloc_size_t n) { return cj__z_calloc(png_get_mem_ptr(png), 1, n); }
static void png_memory_free(png_structp png, png_voidp p) { cj__z_free(png_get_mem_ptr(png), p); }

/* 8 bits, grey or RGB, transparency over black. */
static bool png_decode(decoder *d, png_structp png, png_infop info)
{
    if (setjmp(d->escape)) return false;
    png_set_user_limits(png, 1 << 20, 1 << 20);
    png_set_chunk_malloc_max(png, 1 << 20);
    png_set_read_fn(png, d, png_bytes);
    png_read_info(png, info);
    d->width = png_get_image_width(png, info);
    d->height = png_get_image_height(png, info);
    png_set_expand(png);
    png_set_strip_16(png);
    png_color_16 black = { 0 };
    png_set_background(png, &black, PNG_BACKGROUND_GAMMA_SCREEN, 0, 1.0);
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    d->channels = png_get_channels(png, info);
    if (d->channels != 1 && d->channels != 3) png_error(png, "grey or RGB was expected");
    if (!pixels_alloc(d, 8 * 1032)) return false; /* a bit per pixel, and what deflate can expand */
    for (int pass = 0; pass < passes; pass++)
        for (size_t y = 0; y < d->height; y++) png_read_row(png, d->pixels + y * d->width * d->channels, NULL);
    png_read_end(png, NULL);
    return true;
}

static bool png_read(const cj_bytes *b, cj_pixels *out)
{
    decoder d = { .b = b };
    png_structp png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &d, png_failed, png_ignored, b->ctx, png_memory, png_memory_free);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    bool ok = info && png_decode(&d, png, info);
    png_destroy_read_struct(&png, &info, NULL);
    return finish(&d, ok, out);
}
#endif

/* ---- JPEG ------------------------------------------------------------------------------------------------------------------------------------- */

#if defined CJ_HAVE_JPEG
typedef struct jpeg_decoder {
    decoder d; /* first */
    struct jpeg_error_mgr errors;
    struct jpeg_decompress_struct j;
} jpeg_decoder;

static void jpeg_failed(j_common_ptr j)
{
    jpeg_decoder *d = (jpeg_decoder *)j->client_data;
    char text[JMSG_LENGTH_MAX];
    j->err->format_message(j, text);
    snprintf(d->d.message, sizeof d->d.message, "libjpeg: %s", text);
    if (d->j.src) d->d.at = d->d.b->n - d->j.src->bytes_in_buffer;
    if (j->err->msg_code == JWRN_JPEG_EOF) d->d.at = d->d.b->n; /* libjpeg gave itself an end to read */
    longjmp(d->d.escape, 1);
}

/* Warnings that mean missing data are errors here: half an image is no image. */
static void jpeg_message(j_common_ptr j, int level)
{
    if (level < 0 && (j->err->msg_code == JWRN_JPEG_EOF || j->err->msg_code == JWRN_HIT_MARKER)) jpeg_failed(j);
}

static bool jpeg_decode(jpeg_decoder *d)
{
    if (setjmp(d->d.escape)) return false;
    jpeg_create_decompress(&d->j);
    d->j.client_data = d;
    d->j.mem->max_memory_to_use = 256L << 20;
    jpeg_mem_src(&d->j, d->d.b->data, d->d.b->n);
    jpeg_read_header(&d->j, TRUE);
    d->d.width = d->j.image_width;
    d->d.height = d->j.image_height;
    d->d.channels = d->j.jpeg_color_space == JCS_GRAYSCALE ? 1 : 3;
    d->j.out_color_space = d->d.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    d->j.dct_method = JDCT_ISLOW;
    if (!pixels_alloc(&d->d, 8 * 64)) return false; /* a block of 8 x 8 takes a bit or more */
    jpeg_start_decompress(&d->j);
    while (d->j.output_scanline < d->j.output_height) {
        JSAMPROW row = d->d.pixels + d->j.output_scanline * d->d.width * d->d.channels;
        jpeg_read_scanlines(&d->j, &row, 1);
    }
    jpeg_finish_decompress(&d->j);
    return true;
}

static bool jpeg_read(const cj_bytes *b, cj_pixels *out)
{
    jpeg_decoder d = { .d.b = b };
    d.j.err = jpeg_std_error(&d.errors);
    d.errors.error_exit = jpeg_failed;
    d.errors.emit_message = jpeg_message;
    d.j.client_data = &d;
    bool ok = jpeg_decode(&d);
    jpeg_destroy_decompress(&d.j);
    return finish(&d.d, ok, out);
}
#endif

/* ---- both ------------------------------------------------------------------------------------------------------------------------------------- */

bool cj__image_read(const cj_bytes *b, cj_pixels *out)
{
    *out = (cj_pixels){ .ctx = b->ctx };
    if (b->n >= 8 && memcmp(b->data, "\x89PNG\r\n\x1a\n", 8) == 0) {
#if defined CJ_HAVE_PNG
        return png_read(b, out);
#else
        return cj__bytes_error(
            b, 0, "another image was expected, a PNG was found, and this library was built without libpng (Debian: libpng-dev)");
#endif
    }
    if (b->n >= 3 && memcmp(b->data, "\xff\xd8\xff", 3) == 0) {
#if defined CJ_HAVE_JPEG
        return jpeg_read(b, out);
#else
        return cj__bytes_error(
            b, 0, "another image was expected, a JPEG was found, and this library was built without libjpeg (Debian: libjpeg62-turbo-dev)");
#endif
    }
    return cj__bytes_error(b, 0, "the first bytes of PNG or JPEG were expected, %02x %02x were found", b->n ? b->data[0] : 0,
                           b->n > 1 ? b->data[1] : 0);
}

cj_tensor *cj_image_load(cj_ctx *c, const char *path)
{
    cj_bytes b;
    if (!cj__bytes_load(&b, c, "cj_image_load", path)) return NULL;
    cj_pixels p;
    cj_tensor *t = cj__image_read(&b, &p) ? cj_from_data(c, p.data, CJ_U8, CJ_SHAPE(p.channels, p.height, p.width)) : NULL;
    cj__pixels_free(&p);
    cj__bytes_free(&b);
    return cj_is_poison(t) ? NULL : t;
}

/* Bilinear with half-pixel centres (align_corners=False), as far from the edge as the edge reaches. */
static float sample(const unsigned char *p, int64_t h, int64_t w, double y, double x)
{
    y = y < 0 ? 0 : y > (double)(h - 1) ? (double)(h - 1) : y;
    x = x < 0 ? 0 : x > (double)(w - 1) ? (double)(w - 1) : x;
    int64_t i = (int64_t)y, j = (int64_t)x, i1 = i + 1 < h ? i + 1 : i, j1 = j + 1 < w ? j + 1 : j;
    double a = y - (double)i, b = x - (double)j;
    return (float)((1 - a) * ((1 - b) * p[i * w + j] + b * p[i * w + j1]) + a * ((1 - b) * p[i1 * w + j] + b * p[i1 * w + j1]));
}

void cj__pixels_fit(const cj_pixels *p, int64_t channels, int64_t height, int64_t width, unsigned char *out)
{
    int64_t h = p->height, w = p->width, area = h * w;
    for (int64_t k = 0; k < channels; k++)
        for (int64_t i = 0; i < height; i++)
            for (int64_t j = 0; j < width; j++) {
                double y = ((double)i + 0.5) * (double)h / (double)height - 0.5, x = ((double)j + 0.5) * (double)w / (double)width - 0.5;
                const unsigned char *from = p->data + (p->channels == 3 ? k * area : 0);
                float v = channels == 1 && p->channels == 3 ? 0.299f * sample(from, h, w, y, x) + 0.587f * sample(from + area, h, w, y, x) +
                                                                  0.114f * sample(from + 2 * area, h, w, y, x)
                                                            : sample(from, h, w, y, x);
                out[(k * height + i) * width + j] = (unsigned char)(v + 0.5f);
            }
}

/* ---- PNG out ---------------------------------------------------------------------------------------------------------------------------------- */

#if defined CJ_HAVE_PNG
typedef struct encoder {
    jmp_buf escape;
    cj_writer w;
    char message[256];
} encoder;

static void write_failed(png_structp png, png_const_charp message)
{
    encoder *e = png_get_error_ptr(png);
    snprintf(e->message, sizeof e->message, "%s", message);
    longjmp(e->escape, 1);
}

static void put_bytes(png_structp png, png_bytep bytes, size_t n)
{
    encoder *e = png_get_io_ptr(png);
    if (!cj__writer_put(&e->w, bytes, n)) png_error(png, "the file cannot be written");
}

static void put_nothing(png_structp png) { (void)png; }

static bool encode(encoder *e, png_structp png, png_infop info, unsigned char *rows, uint32_t width, uint32_t height, size_t channels)
{
    if (setjmp(e->escape)) return false;
    png_set_write_fn(png, e, put_bytes, put_nothing);
    png_set_IHDR(png, info, width, height, 8, channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (size_t y = 0; y < height; y++) png_write_row(png, rows + y * width * channels);
    png_write_end(png, info);
    return true;
}

static bool save_rows(cj_ctx *c, const char *path, unsigned char *rows, uint32_t width, uint32_t height, size_t channels)
{
    encoder *e = cj__zalloc(c, sizeof *e);
    if (!e) return false;
    bool ok = cj__writer_open(&e->w, c, "cj_image_save", path);
    if (ok) {
        png_structp png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, e, write_failed, png_ignored, c, png_memory, png_memory_free);
        png_infop info = png ? png_create_info_struct(png) : NULL;
        ok = info && encode(e, png, info, rows, width, height, channels);
        png_destroy_write_struct(&png, &info);
        if (!ok && cj_ok(c)) cj__file_error(c, "cj_image_save", path, "libpng: %s", e->message);
        ok = cj__writer_close(&e->w, ok);
    }
    cj__free(c, e, sizeof *e);
    return ok;
}
#endif

bool cj_image_save(cj_tensor *image, const char *path)
{
    cj_ctx *c = cj_tensor_ctx(image);
    if (!c || !cj__usable(c, "cj_image_save", 0, image)) return false;
    int nd = cj_ndim(image);
    int64_t channels = nd == 3 ? cj_size(image, 0) : 1, height = cj_size(image, -2), width = cj_size(image, -1);
    cj_dtype dtype = cj_dtype_of(image);
    if ((nd != 2 && nd != 3) || (channels != 1 && channels != 3) || height < 1 || width < 1 || height > 1 << 20 || width > 1 << 20)
        return cj__error(c, CJ_ESHAPE, "cj_image_save: [height, width] or [1 or 3, height, width] was expected, %s was found",
                         cj__tensor_text(image));
    if (dtype != CJ_U8 && !cj_dtype_is_float(dtype))
        return cj__error(c, CJ_EDTYPE, "cj_image_save: u8 or a float type was expected, %s was found", cj__tensor_text(image));
#if defined CJ_HAVE_PNG
    size_t area = (size_t)(height * width), n = area * (size_t)channels;
    float *values = cj__alloc(c, n * sizeof *values);
    unsigned char *rows = values ? cj__alloc(c, n) : NULL;
    bool ok = rows && cj_to_f32(image, values, (int64_t)n);
    for (size_t i = 0; ok && i < n; i++) {
        float v = values[i % (size_t)channels * area + i / (size_t)channels] * (dtype == CJ_U8 ? 1.0f : 255.0f);
        rows[i] = v >= 255 ? 255 : v > 0 ? (unsigned char)lroundf(v) : 0; /* NaN is black */
    }
    ok = ok && save_rows(c, path, rows, (uint32_t)width, (uint32_t)height, (size_t)channels);
    if (rows) cj__free(c, rows, n);
    if (values) cj__free(c, values, n * sizeof *values);
    return ok;
#else
    return cj__file_error(c, "cj_image_save", path ? path : "", "this library was built without libpng (Debian: libpng-dev)");
#endif
}
