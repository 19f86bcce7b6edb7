/* Sizes at which a product changes its way: blocks, panels, and the shapes that count as small, few or far.  gemm.c says what the ways are.
 *
 * All of them are compared with shapes and strides alone, never with the number of threads.
 */
#ifndef CJ_KERNELS_CPU_GEMM_SIZES_H
#define CJ_KERNELS_CPU_GEMM_SIZES_H

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemm_simd.h"

enum {
    KC = 512,              /* a block of k: 6 rows of A are 12 KiB of L1, a panel of B 128 KiB of L2 */
    KC_FEW_ROWS = 192,     /* the same where each panel is packed for few tiles: the copy should be written to L1; ... */
    KC_LEAST_ROWS = 256,   /* ... up to FEW_ROWS rows, which are two to five tiles, fewer blocks are worth more */
    KC_TURNED = 128,       /* where the rows of a transposed A are taken in strips of ... */
    STRIP_TURNED = 48,     /* ... so many: the copies of a strip are 32 KiB; and C has ... */
    TURNED_SUMS = 1 << 20, /* ... up to so many elements (and m*n*k up to TURNED_WORK); copies are shared by ... */
    TURNED_PANELS = 8,     /* ... up to so many panels */
    FEW_ROWS = 48,
    HALVES = 14,                                            /* rows of a panel that are worth a second thread, ... */
    PACKED_HALVES = 32,                                     /* ... and where it packs the panel once more */
    BLOCK_ROWS = 640,                                       /* rows of A of one task: 640 * KC_FEW_ROWS floats are 480 KiB of L2 */
    NEAR_B_ROWS = 480,                                      /* the same where B stays in L2 */
    PACK_A_PANELS = 3,                                      /* from this many panels on, copying A pays for itself, ... */
    PACK_A_MOST = 8,                                        /* ... or from more than this many, ... */
    EVENED_PANELS = 16,                                     /* fewer panels than these should be even in number */
    PACK_A_ROWS = 12,                                       /* ... and from more than this many rows on */
    THREE_TILES = 27,                                       /* so many rows are three tiles of width 3 */
    DIRECT_LEAST = GEMM_REGISTERS == 32 ? THREE_TILES : 12, /* up to this many rows B is read where it lies, ... */
    DIRECT_ROWS = GEMM_REGISTERS == 32
                      ? 128
                      : 12, /* ... up to this many if the processor foresees what comes: L2 holds as much of a panel as of a copy; ... */
    DIRECT_PAGED = GEMM_REGISTERS == 32
                       ? 36
                       : 12,        /* ... up to this many of those if its rows lie whole pages apart, where they share few sets of L2 */
    THREE_ROWS = 28,                /* from this many rows on ... */
    THREE_MOST = 128,               /* ... up to this many, panels that tiles copy are three vectors wide, ... */
    THREE_NEAR = 48,                /* ... and up to this many those that are read where they lie */
    UNEVEN_ROWS = 64,               /* up to this many rows a B in L2 is read where it lies even if its rows do not begin on cache lines */
    SHARED_ROWS = 240,              /* about so many rows per task when B is packed for all: 480 KiB of A */
    GROUP_COLUMNS = 2048,           /* columns of B packed at a time ... */
    GROUP_FLOATS = 1 << 17,         /* ... over as many blocks of k as stay below this: all rows of A come by while it is in L2 */
    PACK_ROWS = 32,                 /* rows of A packed in one go */
    TURN_ROWS = 256,                /* rows of C turned in one go when they were computed as columns */
    THIN_ROWS = VL == 16 ? 40 : 16, /* up to this many rows, transposed B may be read in dot products instead of being packed, ... */
    SHARED_COLUMNS = 256,           /* up to this many columns, dot products of some rows are shared out by rows */
    DOTS_ROWS =
        4, /* ... and up to this many it is; with more rows from this k, and eight more for each row, on where vectors are short, ... */
    DOTS_K = 64,             /* ... or by their cost (is_dots) */
    NEAR_FLOATS = 1 << 16,   /* a matrix no larger than this is close enough to be read in any order */
    NEAR_ROWS = 8,           /* so many rows of B ahead are prefetched from L2 */
    L2_FLOATS = 1 << 18,     /* and this much stays in L2 */
    FAR_FLOATS = 1 << 19,    /* a C beyond this may be fetched before it is written */
    TURNED_FLOATS = 1 << 17, /* a transposed A that is read in place; ... */
    TURNED_MORE = 1 << 19,   /* ... the same with DEEP_ROWS rows and more */
    FEW_COLUMNS = 16,        /* up to this many columns of C, and from ... */
    LONG_K = 64,             /* ... this k on, rows of A are read in dot products; below it A is read in place even if it is transposed */
    SLICED_FLOATS = 1 << 17, /* from this size on a matrix that is swept is read in ... */
    SLICES = 4,              /* ... slices of ... */
    SLICE_STEP = 8,          /* ... a multiple of this many rows, as the sweep takes them, ... */
    SLICED_SUMS = 4096,      /* ... unless there are more sums than these */
    FLIPPED_COLUMNS = 256,   /* no more columns than this are computed as rows; ... */
    FLIPPED_FEW = 12,        /* ... up to so many always are */
    DEEP_ROWS = 192,         /* from this many rows on, products of a transposed A with a k from ... */
    DEEP = 1024,             /* ... this on are computed in the shared way */
    STACK_PANEL = 4096,      /* floats: a panel this small is packed on the stack, without workspace */
    TINY = 64 * 64 * 64,     /* products up to this m*n*k go straight to the tiles ... */
    SMALL_K = 128,           /* ... up to this k ... */
    L1_FLOATS = 8192,        /* ... if B fits in L1, on all threads from ... */
    SHARED_SUMS = 1 << 15,   /* ... so many elements of C on.  So do larger ones with ... */
    SHORT_K = 8,             /* ... this k, or a longer one and ... */
    LOW_ROWS = 5,            /* ... so many rows and ... */
    LOW_FLOATS = 1 << 17,    /* ... such a B, unless its rows lie whole ... */
    PAGE = 1024,             /* ... or half pages apart */
};
static const double PARALLEL_WORK = 2.5e5; /* m*n*k below which a second thread costs more than it brings */
static const double TURNED_WORK = 1 << 29; /* every block of k reads and writes C once more */
static const double PARALLEL_THIN = 5e4;   /* the same for products that only stream a matrix */
static const double PARALLEL_NARROW = 8e4; /* the same for those of up to 16 columns, which do not reach the peak; a chunk has half of it */
static const double PARALLEL_NEAR = 1e5;   /* the same for those whose few rows share what they read */
static const double ITEM_WORK = 2e7;       /* batch items below this run whole on one thread each */
static const int64_t PACKED_A_LIMIT = 2 << 20; /* floats of A packed at a time */

/* AMD's processors (Zen 5) foresee what comes; what is fetched early costs them turns.  Chooses between ways with the same sums only, for the bits shall not depend on it. */
GEMM_INLINE int is_foreseen(void)
{
#if defined __x86_64__
    return __builtin_cpu_is("amd");
#else
    return 0;
#endif
}

GEMM_INLINE int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
GEMM_INLINE int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
GEMM_INLINE size_t round64(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

GEMM_INLINE void call_tail(const cj_gemm *g, int64_t item, int64_t i0, int64_t rows, int64_t j0, int64_t j1)
{
    g->tail(g->tail_arg, item, i0, i0 + rows, j0, j1);
}

#endif
