/* cajal/data.h: tensors in files, and data sets.
 *
 * Files.  What is read is checked before memory is asked for: a cut, lying or foreign file is CJ_EFILE with a sentence that says what is wrong.  What is
 * written goes to PATH.tmp in the same folder, is synchronised and then renamed: after any failure (no space, no permission, a killed process) PATH is
 * the old file or the new one, never half of one.
 *
 *     cj_npy_save(x, "x.npy");
 *     cj_archive *a = cj_safetensors_load(c, "model.safetensors");
 *     cj_tensor *w = cj_archive_find(a, "0.weight");
 */
#ifndef CAJAL_DATA_H
#define CAJAL_DATA_H

#include <cajal/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- .npy: one array, NumPy's format -------------------------------------------------------------------------------------------------------- */

/* f32 f64 f16 i64 i32 u8 bool as NumPy has them.  NumPy has no bf16: its elements are written as '<V2' (two opaque bytes, what ml_dtypes writes), which
 * numpy.load(...).view(ml_dtypes.bfloat16) reads, and '<V2' is read as bf16.  Versions 1 to 3 are read, C and Fortran order (made row-major); other
 * dtypes and big-endian files are refused.  Strided tensors are written row-major. */
CJ_API cj_tensor *cj_npy_load(cj_ctx *c, const char *path); /* a tensor of the innermost scope */
CJ_API bool cj_npy_save(cj_tensor *t, const char *path);

/* ---- named tensors: .npz and .safetensors ------------------------------------------------------------------------------------------------------ */

typedef struct cj_named {
    const char *name;
    cj_tensor *tensor;
} cj_named;

typedef struct cj_text_pair {
    const char *key, *value;
} cj_text_pair;

/* What a file held, in the order of the file.  The tensors are persistent and go with the archive; cj_keep one to have it longer. */
typedef struct cj_archive {
    int count;
    const cj_named *item;
    int pairs;           /* metadata: texts by key (safetensors only) */
    const cj_text_pair *pair;
} cj_archive;

CJ_API cj_tensor *cj_archive_find(const cj_archive *a, const char *name);      /* NULL where there is none */
CJ_API const char *cj_archive_meta(const cj_archive *a, const char *key);      /* NULL where there is none */
CJ_API void cj_archive_free(cj_archive *a);                                    /* or cj_ctx_free does; NULL is fine */

/* A zip file of .npy members, as numpy.savez makes it.  Members are deflated where zlib was found when the library was built, else stored (and then only
 * stored members are read).  At most 4 GiB (no zip64). Members that are no .npy are passed over. */
CJ_API cj_archive *cj_npz_load(cj_ctx *c, const char *path);                   /* NULL after an error */
CJ_API bool cj_npz_save(cj_ctx *c, const char *path, const cj_named *item, int n);

/* The safetensors format (huggingface/safetensors): a JSON header, then the bytes.  All dtypes; needs cJSON. */
CJ_API cj_archive *cj_safetensors_load(cj_ctx *c, const char *path);           /* NULL after an error */
CJ_API bool cj_safetensors_save(cj_ctx *c, const char *path, const cj_named *item, int n, const cj_text_pair *pair, int pairs);

/* ---- .onnx: a network as a graph of operators ------------------------------------------------------------------------------------------------
 *
 * The forward pass of a module in evaluation mode as an ONNX model (opset 17), which onnxruntime and others run; needs protobuf-c.  Parameters and buffers are
 * initialisers under the names of cj_module_state, all of them, also those that the pass does not use.  x is an example of the input, [examples, ..]; what it holds
 * must be valid (indices in range) and is not written.  The number of examples stays open (dim_param "batch") where the pass allows it.  An operator without a
 * counterpart is an error that names it; a pass that decides by looking at values is written as it went for x. */
typedef struct cj_module cj_module;
typedef struct cj_onnx_summary {
    int nodes, tensors;      /* nodes of the graph; parameters and buffers */
    bool any_batch;          /* any number of examples */
    char why[160];           /* else: why not, or "" where fixed_batch was asked for */
} cj_onnx_summary;
typedef struct cj_onnx_opts {
    const char *name;        /* of the graph; "cajal" */
    const char *input, *output; /* their names: "input", "output" */
    bool fixed_batch;        /* as many examples as x has, no others */
    cj_onnx_summary *summary;/* filled in where it is not NULL */
} cj_onnx_opts;
CJ_API bool cj_onnx_save(cj_module *m, cj_tensor *x, const char *path, const cj_onnx_opts *opts);
/* The initialisers of an ONNX model; its graph is passed over.  f32 f64 bf16 f16 i64 i32 u8 bool; elements in other files are refused.  NULL after an error. */
CJ_API cj_archive *cj_onnx_load(cj_ctx *c, const char *path);

/* ---- readers ------------------------------------------------------------------------------------------------------------------------------------------
 *
 * Every reader takes a plain file, or one compressed with gzip or xz (by its first bytes, where zlib and liblzma were found at build time), of at most 2 GiB.
 * What a file says about itself is checked before memory is asked for; memory grows with what is there.  A wrong, cut or hostile file is CJ_EFILE with the
 * file, the byte, what was expected and what was found; the reader then returns NULL (or false).  Tensors belong to the innermost scope, structures live
 * until they are freed (NULL is fine) or the context is, with their tensors. */

/* IDX (MNIST's format): u8, i32, f32 and f64 as they are; i8 and i16 become i32.  1 to 8 dimensions. */
CJ_API cj_tensor *cj_idx_load(cj_ctx *c, const char *path);

/* CIFAR's binary format: records of `labels` bytes (1: CIFAR-10; 2: CIFAR-100, coarse and fine) and 3072 of an image.
 * *x u8 [n, 3, 32, 32], *y i64 [n], for two labels [n, 2]. */
CJ_API bool cj_cifar_load(cj_ctx *c, const char *path, int labels, cj_tensor **x, cj_tensor **y);

/* Tables of comma-separated values (RFC 4180: quotes, doubled quotes, line breaks in quotes; also blank-separated columns). */
typedef struct cj_csv_opts {
    char delimiter;      /* ',' by default; ' ' for runs of blanks */
    int header;          /* 0: a first line without any number is one; 1: there is one; -1: there is none */
    const char *missing; /* a text that stands for a missing value, besides empty fields, NA, NaN and ? */
} cj_csv_opts;

typedef struct cj_column {
    const char *name;               /* of the header; "0", "1", … without one */
    int64_t categories;             /* different texts; 0: the column is numeric */
    const char *const *category;    /* in ascending order of bytes */
    int64_t missing;                /* rows without a value: NaN */
} cj_column;

typedef struct cj_table {
    int64_t rows, columns;
    cj_tensor *x;                   /* f64 [rows, columns]: numbers, category numbers, NaN */
    const cj_column *column;
} cj_table;

CJ_API cj_table *cj_csv_load(cj_ctx *c, const char *path, const cj_csv_opts *opts);
CJ_API void cj_table_free(cj_table *t);

/* PNG (libpng) and JPEG (libjpeg), by the first bytes: u8 [channels, height, width], 1 channel for grey, 3 for colour; transparency is laid over black,
 * palettes and 16 bits are made 8 bits. At most 2^26 pixels. */
CJ_API cj_tensor *cj_image_load(cj_ctx *c, const char *path);
/* u8, or a float type with values 0 … 1: [height, width], [1, height, width] or [3, height, width]. */
CJ_API bool cj_image_save(cj_tensor *image, const char *path);

/* A folder of folders, one per class in the order of their names, with PNG and JPEG files in the order of theirs. */
typedef struct cj_image_folder_opts {
    int64_t height, width; /* every image is brought to this size by bilinear resampling; 0: the size of the first, which the others must have */
    int channels;          /* 1 (grey = 0.299 R + 0.587 G + 0.114 B) or 3; 0: 3 */
} cj_image_folder_opts;

typedef struct cj_image_folder {
    int64_t n, classes;
    cj_tensor *x, *y;                   /* u8 [n, channels, height, width], i64 [n] */
    const char *const *class_names;
    const char *const *files;           /* n of them, CLASS/NAME */
} cj_image_folder;
CJ_API cj_image_folder *cj_image_folder_load(cj_ctx *c, const char *path, const cj_image_folder_opts *opts);
CJ_API void cj_image_folder_free(cj_image_folder *f);

/* A file's bytes: u8 [n]. */
CJ_API cj_tensor *cj_bytes_load(cj_ctx *c, const char *path);

/* A text's lines, without their line ends (LF or CR LF).  It must be UTF-8 without zero bytes; a byte-order mark is passed over. */
typedef struct cj_lines {
    int64_t n;
    const char *const *line;
    const int64_t *length;              /* bytes of each */
} cj_lines;
CJ_API cj_lines *cj_lines_load(cj_ctx *c, const char *path);
/* Two texts, one the translation of the other line by line: equally many lines, or an error. */
CJ_API bool cj_parallel_load(cj_ctx *c, const char *path_a, const char *path_b, cj_lines **a, cj_lines **b);
CJ_API void cj_lines_free(cj_lines *l);

/* MATLAB's format 5 (save -v6, -v7): the real numeric and logical arrays of the file as tensors (row-major; double f64, single f32, int8 to uint16 and int32
 * i32, uint8 u8, uint32 and 64 bits i64, logical bool), one-line texts as metadata.  Cells, structures, sparse and complex arrays are passed over; format 7.3
 * (HDF5) is refused. */
CJ_API cj_archive *cj_mat_load(cj_ctx *c, const char *path);

/* A graph as compressed sparse rows: the neighbours of node i are target[offset[i]] … target[offset[i+1] - 1], in ascending order, each once. */
typedef struct cj_graph {
    int64_t nodes, edges;               /* edges: entries of target; an undirected edge has two, a loop one */
    cj_tensor *offset, *target;         /* i64 [nodes + 1], i64 [edges] */
    cj_tensor *weight;                  /* f32 [edges], or NULL */
    cj_tensor *x, *y;                   /* f32 [nodes, features], i64 [nodes] (-1: unknown), or NULL */
    int64_t features, classes;
    cj_tensor *train, *val, *test;      /* i64: nodes, or NULL */
    const char *const *label;           /* names of the nodes, or NULL */
    bool directed;
} cj_graph;
/* GML (Himsolt 1997): nodes with ids and labels, edges with values as weights. */
CJ_API cj_graph *cj_gml_load(cj_ctx *c, const char *path);
/* Planetoid (Yang, Cohen, Salakhutdinov 2016): FOLDER/ind.NAME.x, .tx, .allx, .y, .ty, .ally, .graph, .test.index.  Their Python pickles are read by a
 * machine that knows dictionaries, lists, numbers, NumPy arrays and SciPy's csr_matrix and calls nothing.  The split is the usual one: the labelled rows
 * train, the 500 rows after them val, the test index test.  Nodes that the test index leaves out (citeseer) have no features and y = -1. */
CJ_API cj_graph *cj_planetoid_load(cj_ctx *c, const char *folder, const char *name);
CJ_API void cj_graph_free(cj_graph *g);

/* Pascal-VOC annotations (XML): boxes in pixels as the file has them. */
typedef struct cj_box {
    const char *name;
    double xmin, ymin, xmax, ymax;
    bool difficult;
} cj_box;
typedef struct cj_boxes {
    const char *file;                   /* the image's name */
    int64_t width, height, depth, n;
    const cj_box *box;
} cj_boxes;
CJ_API cj_boxes *cj_voc_load(cj_ctx *c, const char *path);
CJ_API void cj_boxes_free(cj_boxes *b);

/* WAV (RIFF): PCM of 8, 16, 24 and 32 bits and floats of 32 and 64, as f32 [channels, frames] in -1 … 1; *rate becomes the frames per second. */
CJ_API cj_tensor *cj_wav_load(cj_ctx *c, const char *path, int64_t *rate);

/* Labelled time series, the .ts format of the UCR and UEA archives: x f32 [n, channels, length] with shorter series followed by zeros. */
typedef struct cj_timeseries {
    int64_t n, channels, length, classes;
    cj_tensor *x, *y;                   /* y i64 [n], NULL where the file has no labels */
    cj_tensor *lengths;                 /* i64 [n] */
    const char *const *class_names;
} cj_timeseries;
CJ_API cj_timeseries *cj_ts_load(cj_ctx *c, const char *path);
CJ_API void cj_timeseries_free(cj_timeseries *s);

/* ---- augmentation: images changed at random, their labels kept ----------------------------------------------------------------------------------------- */

/* x f32 [n, C, H, W] through the affine map p' = A (p - centre) + centre + t of its pixels p = (row, column): every new pixel looks up where it came from,
 * between pixels bilinearly, zero outside.  m = { a, b, t_row, c, d, t_column }, A = [[a, b], [c, d]].  The identity and turns by 90 degrees are exact. */
CJ_API cj_tensor *cj_warp(cj_tensor *x, const double m[6]);

/* The same along any projective map of the plane, p' ~ H (row, column, 1), pixels counted from the upper left one; h is H row by row. */
CJ_API cj_tensor *cj_warp_perspective(cj_tensor *x, const double h[9]);
/* H, with h[8] = 1, that takes four points (row, column) to four others; an error where three of them lie on a line. */
CJ_API bool cj_homography(cj_ctx *c, const double from[8], const double to[8], double h[9]);
/* A lens: what lies at radius r from the centre comes to lie at r (1 + k1 r² + k2 r⁴), r = 1 at half the diagonal. k1 > 0: a pincushion, k1 < 0: a barrel.
 * The radius must grow on 0 … 1: 1 + 3 k1 r² + 5 k2 r⁴ > 0. cj_lens_undo: where radius `far` came from, to 1e-12; beyond the image's corners NaN. */
CJ_API cj_tensor *cj_warp_lens(cj_tensor *x, double k1, double k2);
CJ_API double cj_lens_undo(double k1, double k2, double far);
/* Moved by so many pixels, between pixels bilinearly; what comes in is zero or, with wrap, what went out at the other side. */
CJ_API cj_tensor *cj_shift(cj_tensor *x, double down, double right, bool wrap);
/* The mirror image: left and right or, vertical, top and bottom; and boxes f32 [n, 4] (xmin, ymin, xmax, ymax) of an image of this width (height). */
CJ_API cj_tensor *cj_mirror(cj_tensor *x, bool vertical);
CJ_API cj_tensor *cj_mirror_boxes(cj_tensor *boxes, double size, bool vertical);

/* Means of neighbours: weights exp(-d²/2σ²) for d up to 3σ, or with sigma 0 equal ones up to `radius` (0: nothing); beyond the border its own value. */
CJ_API cj_tensor *cj_blur(cj_tensor *x, double sigma, int64_t radius);
/* Every value of channel k becomes `high` where it is threshold[k] or more, else 0; thresholds up to high. */
CJ_API cj_tensor *cj_channel_threshold(cj_tensor *x, const double *threshold, double high);
/* λ_i p_i (row i) of the covariance of the colours of all pixels of x [n, 3, H, W], largest λ first: what .colour below adds multiples of. */
CJ_API bool cj_colour_axes(cj_tensor *x, double axes[9]);
/* The pixels of every image in another order, the same for all, that depends on the seed alone; back: undone. */
CJ_API cj_tensor *cj_permute_pixels(cj_tensor *x, uint64_t seed, bool back);

/* What may happen to an image; 0 leaves a part out.  Draws are a function of (seed, epoch, number of the sample) alone: they do not depend on the batch, on
 * threads or on what was drawn before, and a run that resumes sees the same images.  The changes are made in this order. */
typedef struct cj_augment_opts {
    uint64_t seed;
    int64_t epoch;
    const int64_t *samples;          /* their numbers, n of them; NULL: 0, 1, 2, … */
    double flip, flip_vertical;      /* probability of a mirror image: left and right, top and bottom */
    int64_t pad;                     /* a crop of the same size after so many rows and columns around it: every offset is as likely */
    double rotate, scale, shear;     /* at most so many degrees; factors 1 ± scale; x' = x + s y with |s| at most this (before the crop) */
    double contrast, brightness;     /* c (v - mean) + mean + b with c in 1 ± contrast and b in ± brightness */
    double noise;                    /* deviation of Gaussian noise on every value */
    int64_t mask;                    /* a square of this side becomes zero, wholly inside the image */
    cj_pad_mode pad_mode;            /* what the pad is made of: zeros, reflected, cyclic, or the border's values */
    double perspective;              /* below 1/2: every corner moves inwards by at most this share of the height and the width */
    double lens;                     /* |k1| of cj_warp_lens at most; below 1/3 */
    double blur;                     /* sigma of cj_blur at most */
    double colour;                   /* deviation of the α_i in: every pixel + sum of α_i axes[i]; 3 channels */
    const double *colour_axes;       /* of cj_colour_axes */
    double low, high;                /* values are clipped to low … high (after the noise, before the mask); both 0: not clipped */
    bool mask_mean;                  /* the mask is filled with the mean of the image's channel instead */
} cj_augment_opts;
/* x f32 [n, C, H, W], a new tensor of the innermost scope. */
CJ_API cj_tensor *cj_augment(cj_tensor *x, const cj_augment_opts *opts);
/* The set and its augmented copy, T(D) ∪ D: *more_x [2n, ..] has x first, *more_y y twice (any dtype, first axis n). False after an error. */
CJ_API bool cj_augment_set(cj_tensor *x, cj_tensor *y, cj_tensor **more_x, cj_tensor **more_y, const cj_augment_opts *opts);

/* Objects on other backgrounds: mask · x + (1 - mask) · b with mask f32 [n, 1, H, W] and b a random one of backgrounds f32 [m, C, H, W], drawn as above. */
typedef struct cj_background_opts {
    uint64_t seed;
    int64_t epoch;
    const int64_t *samples;          /* as in cj_augment_opts */
} cj_background_opts;
CJ_API cj_tensor *cj_replace_background(cj_tensor *x, cj_tensor *mask, cj_tensor *backgrounds, const cj_background_opts *opts);

/* Pairs of examples mixed: x = λ x_i + (1 - λ) x_j and y likewise (Zhang et al. 2018) or, cut, a rectangle of x_j of area (1 - λ) in x_i and y by the area
 * that it really has (Yun et al. 2019); λ ~ Beta(alpha, alpha), j a random row of the batch.  x f32 [n, C, H, W], y f32 [n, classes]. False after an error. */
typedef struct cj_mix_opts {
    uint64_t seed;
    int64_t epoch;
    const int64_t *samples;          /* as in cj_augment_opts */
    double alpha;                    /* 1 by default */
    bool cut;
} cj_mix_opts;
CJ_API bool cj_mix(cj_tensor *x, cj_tensor *y, cj_tensor **mixed_x, cj_tensor **mixed_y, const cj_mix_opts *opts);

/* ---- sequences with known answers ------------------------------------------------------------------------------------------------------------------------
 *
 * Tasks for networks that have to remember.  A row depends on the seed and its number alone, so more rows begin with the same ones. */
typedef enum cj_sequence_task {
    CJ_SEQUENCE_COPY,     /* x i64 [n, length] of symbols 0 … symbols-1, each as likely; y = x */
    CJ_SEQUENCE_REVERSE,  /* the same with y[t] = x[length-1-t] */
    CJ_SEQUENCE_RECALL,   /* the same with y i64 [n] = x[0]: the lag is length - 1 */
    CJ_SEQUENCE_ADDING,   /* x f32 [n, length, 2]: numbers in [0, 1) and marks, one in each half; y f32 [n]: the sum of the two marked ones. Variance 1/6 around 1 */
    CJ_SEQUENCE_PARITY,   /* x i64 [n, length] of bits; y i64 [n]: their sum modulo 2 */
    CJ_SEQUENCE_BRACKETS  /* x i64 [n, length] of ( ) [ ] as 0 … 3, length even; y i64 [n]: 1 where they match, in every second row; in the others one symbol is wrong */
} cj_sequence_task;
typedef struct cj_sequence_opts {
    uint64_t seed;        /* 0: the context's */
    int64_t first;        /* number of the first row: other rows of the same seed */
    int64_t symbols;      /* of copy, reverse, recall; 8 */
} cj_sequence_opts;
typedef struct cj_sequences {
    cj_tensor *x, *y;
} cj_sequences;
/* n rows of a task, tensors of the innermost scope; poison after an error. */
CJ_API cj_sequences cj_sequence_rows(cj_ctx *c, cj_sequence_task task, int64_t n, int64_t length, const cj_sequence_opts *opts);

/* A text i64 [N] in pieces: x i64 and y the same symbols one place later.  False after an error. */
/* `batch` rows side by side, each (N-1)/batch symbols long, in windows of `length` (the last may be shorter): window k of each row follows window k-1, so a network's state can be
 * handed on.  Together the windows hold every symbol of the rows once; what is left out at the end is shorter than `batch`. */
CJ_API int64_t cj_text_windows(cj_tensor *text, int64_t batch, int64_t length);  /* how many; 0 after an error */
CJ_API bool cj_text_window(cj_tensor *text, int64_t batch, int64_t length, int64_t k, cj_tensor **x, cj_tensor **y); /* [batch, length] */
/* n stretches of the text, [n, length], that begin anywhere: from CJ_STREAM_DATA. */
CJ_API bool cj_text_chunks(cj_tensor *text, int64_t n, int64_t length, cj_tensor **x, cj_tensor **y);
/* Where the sentences of a text begin and how many symbols they have, the symbol `end` that ends each included: i64 [sentences]; a text's last one may lack it. */
CJ_API bool cj_text_sentences(cj_tensor *text, int64_t end, cj_tensor **start, cj_tensor **length);
/* Sentences as rows [n, the longest of them], `pad` after their end; n starts and lengths as above, or a choice of them. */
CJ_API cj_tensor *cj_text_rows(cj_tensor *text, cj_tensor *start, cj_tensor *length, int64_t pad);

/* ---- tokenisers --------------------------------------------------------------------------------------------------------------------------------------
 *
 * Text to token numbers and back.  A text is n bytes of UTF-8 (n < 0: up to its zero byte); bytes that are no UTF-8 count as symbols of their own. */
typedef struct cj_tokeniser cj_tokeniser;

typedef struct cj_tokeniser_opts {
    int64_t vocabulary;          /* most tokens; 0: all (words), 1024 (BPE) */
    int64_t least;               /* words: how often one occurs at least; 0: once */
    bool lower;                  /* words: ASCII letters made small */
    bool joined;                 /* words: as cajal/words.h cuts sentences: ' and - inside of a word belong to it, so does every byte beyond ASCII; lower makes
                                  * Latin-1 small too; equally frequent words in the order of their bytes */
    const char *word_end;        /* BPE: NULL: bytes of GPT-2's pieces; else characters of words between blanks, each word with this mark at its end */
    const char *const *specials; /* "<pad>", "<bos>", "<eos>", "<unk>" …, ended by NULL: the first numbers, never found in a text */
} cj_tokeniser_opts;

/* 256 tokens: bytes. */
CJ_API cj_tokeniser *cj_tokeniser_bytes(cj_ctx *c, const cj_tokeniser_opts *opts);
/* The code points of a text in ascending order; others become "<unk>" where it is among the specials, else they are an error. */
CJ_API cj_tokeniser *cj_tokeniser_characters(cj_ctx *c, const char *text, int64_t n, const cj_tokeniser_opts *opts);
/* Runs of letters and digits, and every other symbol that is not white space; the most frequent first (then the first seen).  Others become "<unk>", which is
 * added where the specials have none.  Decoding puts blanks between them. */
CJ_API cj_tokeniser *cj_tokeniser_words(cj_ctx *c, const char *text, int64_t n, const cj_tokeniser_opts *opts);
/* Byte-pair encoding (Gage 1994; Sennrich, Haddow, Birch 2016): starts from the 256 bytes (or the text's characters), and merges the most frequent
 * neighbours (of equally frequent ones the first in the text) until the vocabulary is full or no pair occurs twice.  Bytes are lossless on any text. */
CJ_API cj_tokeniser *cj_tokeniser_bpe(cj_ctx *c, const char *text, int64_t n, const cj_tokeniser_opts *opts);
/* GPT-2's (Radford et al. 2019), token for token: 50257, of which 50256 is <|endoftext|>.  Reads FOLDER/vocab.bpe; folder NULL: $CAJAL_DATA/gpt2-tokenizer or
 * ~/.cache/cajal/gpt2-tokenizer. */
CJ_API cj_tokeniser *cj_tokeniser_gpt2(cj_ctx *c, const char *folder);
CJ_API void cj_tokeniser_free(cj_tokeniser *t);
/* A tokeniser of any kind in a file of its own: whoever loads it needs the text no more that it was learnt from. */
CJ_API bool cj_tokeniser_save(const cj_tokeniser *t, const char *path);
CJ_API cj_tokeniser *cj_tokeniser_load(cj_ctx *c, const char *path);

CJ_API int64_t cj_tokeniser_size(const cj_tokeniser *t);                                     /* tokens in all */
CJ_API const char *cj_token_text(const cj_tokeniser *t, int64_t token, int64_t *n);          /* its bytes; NULL for a number that is none */
CJ_API int64_t cj_token_number(const cj_tokeniser *t, const char *text, int64_t n);          /* -1 where there is none */
/* How many tokens the text has; the first `room` of them go to out. -1 after an error. */
CJ_API int64_t cj_encode(const cj_tokeniser *t, const char *text, int64_t n, int64_t *out, int64_t room);
/* How many bytes the tokens have, specials left out; the first `room` go to out, and a zero byte where there is room for it. -1 after an error. */
CJ_API int64_t cj_decode(const cj_tokeniser *t, const int64_t *tokens, int64_t count, char *out, int64_t room);

/* ---- data sets ------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct cj_dataset_info {
    const char *name;
    const char *family;  /* "table", "image", "generated", "text", "lines", "translation", "graph", "series", "boxes" */
    const char *summary;
} cj_dataset_info;
/* The known data sets; *n becomes their number. */
CJ_API const cj_dataset_info *cj_dataset_list(int *n);

typedef struct cj_dataset_opts {
    double held_out;     /* share of the rows that is held out; 0.2 by default, CJ_ZERO for none; sets with an official test split keep that one */
    double validation;   /* share of the training rows set apart to choose models by; CJ_ZERO for none; 0: 0.1 of sets from files, none of the others */
    uint64_t seed;       /* of the split and of generated sets; 0: the context's seed */
    bool raw;            /* values as in the source: digits 0 … 16, tables and regression targets not standardised */
    int64_t n;           /* generated sets: points, 1000 by default */
    int64_t classes;     /* blobs (3) and spirals (2) */
    double noise;        /* generated sets: standard deviation; CJ_ZERO for none */
} cj_dataset_opts;

/* A data set in memory.  The split is a shuffle of the rows, the same for the same seed on every machine, and draws nothing from the context's streams.
 *
 *   classes       x f32 [n, features], y i64 [n]
 *   values        x f32 [n, features], y f32 [n, 1] (a column, so that it fits a network's output without broadcasting)
 *   text          x i64 [n] of symbol numbers, y NULL; validation and test are the end of the text, nothing is shuffled
 *   images        rows of classes: reshape x to [n, channels, height, width]
 *   series        classes with channels and width (height 1); or values: windows of the last 12 values and the next one, in the order of time
 *   graph         graph, x f32 [nodes, features], y i64 [nodes]; no split tensors, the graph has indices
 *   lines         lines[0 … 2]: training, validation and test lines; train_y, val_y, test_y i64 where they have classes
 *   translation   lines as above and their translations in target[0 … 2]
 *   boxes         x as for images, boxes[i] those of row i in pixels of x
 *
 * Sets with an official test split (mnist, cifar10, the UCR series, wikitext-2 …) keep it apart; validation rows are the official ones, or taken from the
 * training rows.  In them x holds the training (shuffled), validation and test rows one after the other and the parts are views of it.
 * Images are scaled to 0 … 1.  Tables (iris, wine, breast_cancer, diabetes, boston, california) and targets that are values are standardised with the mean
 * and deviation of the training rows, a missing value becomes the mean; cora's rows are divided by their sum.  The tensors are persistent and go with the
 * data set. */
typedef struct cj_dataset {
    const char *name, *summary;
    cj_tensor *x, *y;               /* all rows, in the order of the source */
    cj_tensor *train_x, *train_y;   /* the split, shuffled */
    cj_tensor *test_x, *test_y;     /* held out; [0, features] when nothing is */
    int64_t n, features;            /* rows (symbols of a text), columns (1 for a text) */
    int64_t classes;                /* classes; symbols of a text's alphabet; 0 for values */
    const char *const *class_names; /* classes of them */
    const char *const *feature_names;   /* features of them, or NULL */
    int64_t height, width;          /* of an image row, else 0 */
    double y_mean, y_std;           /* values: y in the source = y · y_std + y_mean */
    bool is_text;
    unsigned char symbol[256];      /* text: the byte of a symbol number, in ascending order */
    int16_t number[256];            /* text: the symbol number of a byte, -1 where the text has none */
    cj_tensor *val_x, *val_y;       /* validation; [0, features] when nothing is */
    int64_t channels;               /* of an image or series row, else 0 */
    const cj_graph *graph;          /* or NULL, as the next ones */
    const cj_lines *lines[3];
    const cj_lines *target[3];
    const cj_boxes *const *boxes;
} cj_dataset;

/* Embedded: digits iris wine breast_cancer diabetes sources; generated: moons spirals blobs xor
 * rings margin sines polynomial wave wedge outliers gumbel random oranges heights cars; all others (cj_dataset_list) are read from
 * $CAJAL_DATA/FOLDER or ~/.cache/cajal/FOLDER, and where they are in neither, the error says where it looked and how to get them.  An unknown name is an
 * error that lists them.  NULL after an error.
 *     cj_dataset *d = cj_dataset_open(c, "digits", .held_out = 0.1); */
CJ_API cj_dataset *cj_dataset_open(cj_ctx *c, const char *name, const cj_dataset_opts *opts);
CJ_API void cj_dataset_free(cj_dataset *d);                                    /* or cj_ctx_free does; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
