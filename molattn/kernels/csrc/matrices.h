/* Linear layers for a few hundred rows and small weight matrices, and their gradients.
 *
 * There are two implementations: vectors of float32, or bfloat16 on processors with AMX. With AMX each number is split
 * into a sum of two bfloat16 numbers, hi + lo, and a b is computed as hi hi + hi lo + lo hi, which has about 16 bits of
 * precision and takes a third of the time. In both, a row of the output depends on the same row of the input only, not
 * on the other rows of the batch. */

#ifndef MOLATTN_MATRICES_H
#define MOLATTN_MATRICES_H

#include "vectors.h"

#if defined(__AMX_BF16__) && defined(__linux__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#define HAS_AMX 1
#else
#define HAS_AMX 0
#endif

/* Rows or columns of a tile, the other dimension, over which products sum, and what AMX needs numbers of rows to be
 * multiples of. */
enum { TILE_SIDE = 16, TILE_DEPTH = 32, ROW_MULTIPLE = 32 };

/* 16 rows of 32 numbers, or 32 rows of 16, as bfloat16 pairs (x_j, x_j+16). */
typedef struct {
  int32_t hi[TILE_SIDE][TILE_SIDE], lo[TILE_SIDE][TILE_SIDE];
} Tile __attribute__((aligned(64)));

/* The weight W, (out, in), of a linear layer y = x W^T, and its copy in the memory layout that the implementation
 * needs. */
typedef struct {
  int64_t in, out;
  const float *w;
  float *transposed;                    /* (in, out), without AMX */
  Tile *forward_tiles, *backward_tiles; /* (out / 16, in / 32), (in / 16, out / 32), with AMX */
} Weights;

/* Whether the processor has AMX and the operating system lets this process use it. */
static int has_amx(void) {
#if HAS_AMX
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
  static int known = -1;
  if (known < 0) known = !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA);
  return known;
#else
  return 0;
#endif
}

/* Configures and releases the AMX tile registers of a thread: 8 tiles of 16 rows of 64 bytes. */
static void configure_tiles(void) {
#if HAS_AMX
  struct {
    uint8_t palette, start, none[14];
    uint16_t bytes[16];
    uint8_t rows[16];
  } shape = {.palette = 1};
  for (int i = 0; i < 8; i++) shape.bytes[i] = 64, shape.rows[i] = TILE_SIDE;
  _tile_loadconfig(&shape);
#endif
}
static void release_tiles(void) {
#if HAS_AMX
  _tile_release();
#endif
}

#if HAS_AMX
/* Two vectors as pairs of bfloat16, rounded to nearest (hi), and the remainders in the same way (lo). */
INLINE void split_pairs(int32_t *hi, int32_t *lo, V x, V y) {
  const I top = (I){} + (int32_t)0xffff0000, half = (I){} + 0x8000;
  const I x_hi = ((I)x + half) & top, y_hi = ((I)y + half) & top;
  const I x_lo = (I)(x - (V)x_hi) + half, y_lo = (I)(y - (V)y_hi) + half;
  *(I *)hi = (I)((U)x_hi >> 16) | y_hi;
  *(I *)lo = (I)((U)x_lo >> 16) | (y_lo & top);
}

INLINE void transpose_tile(int32_t tile[TILE_SIDE][TILE_SIDE]) {
  V x[L];
  for (int i = 0; i < L; i++) x[i] = load((const float *)tile[i]);
  transpose_vectors(x);
  for (int i = 0; i < L; i++) store((float *)tile[i], x[i]);
}

/* Packs 16 rows of 32 columns, of which `rows` exist and the others are zero, paired along the columns. */
static void pack_column_pairs(Tile *to, const float *x, int64_t stride, int64_t rows, int transposed) {
  for (int64_t r = 0; r < TILE_SIDE; r++)
    if (r < rows) split_pairs(to->hi[r], to->lo[r], load(x + r * stride), load(x + r * stride + TILE_SIDE));
    else memset(to->hi[r], 0, sizeof to->hi[r]), memset(to->lo[r], 0, sizeof to->lo[r]);
  if (transposed) transpose_tile(to->hi), transpose_tile(to->lo);
}

/* Packs 32 rows of 16 columns, of which `rows` exist and the others are zero, paired along the rows. */
static void pack_row_pairs(Tile *to, const float *x, int64_t stride, int64_t rows, int transposed) {
  for (int64_t r = 0; r < TILE_SIDE; r++)
    split_pairs(to->hi[r], to->lo[r], r < rows ? load(x + r * stride) : (V){},
                r + TILE_SIDE < rows ? load(x + (r + TILE_SIDE) * stride) : (V){});
  if (transposed) transpose_tile(to->hi), transpose_tile(to->lo);
}

/* The four output tiles; each intrinsic is a statement of inline assembly. */
#define EACH_TILE(intrinsic, y)                                                                          \
  intrinsic(0, y, bytes); intrinsic(1, y + TILE_SIDE, bytes); intrinsic(2, y + TILE_SIDE * stride, bytes); \
  intrinsic(3, y + TILE_SIDE * stride + TILE_SIDE, bytes);
#define LOAD_TILES(one, two, from, part) _tile_loadd(one, (from)->part, 64); _tile_loadd(two, (from + k)->part, 64);
#define ADD_PRODUCTS _tile_dpbf16ps(0, 4, 6); _tile_dpbf16ps(1, 4, 7); _tile_dpbf16ps(2, 5, 6); _tile_dpbf16ps(3, 5, 7);
/* The compiler does not know that the intrinsics read and write memory. */
#define COMPILER_BARRIER __asm__ volatile("" ::: "memory")

/* y (+)= a b of tiles (m, k) and (n, k); y has 16 m rows and 16 n columns. */
static void multiply_tiles(float *y, int64_t stride, const Tile *a, const Tile *b, int64_t m, int64_t n, int64_t k,
                           int add) {
  const int64_t bytes = stride * (int64_t)sizeof(float);
  COMPILER_BARRIER;
  for (int64_t j = 0; j < n; j += 2)
    for (int64_t i = 0; i < m; i += 2) {
      float *here = y + i * TILE_SIDE * stride + j * TILE_SIDE;
      if (add) {
        EACH_TILE(_tile_loadd, here)
      } else {
        _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
      }
      const Tile *tile_a = a + i * k, *tile_b = b + j * k;
      for (int64_t l = 0; l < k; l++, tile_a++, tile_b++) {
        LOAD_TILES(4, 5, tile_a, hi) LOAD_TILES(6, 7, tile_b, lo) ADD_PRODUCTS
        LOAD_TILES(6, 7, tile_b, hi) ADD_PRODUCTS
        LOAD_TILES(4, 5, tile_a, lo) ADD_PRODUCTS
      }
      EACH_TILE(_tile_stored, here)
    }
  COMPILER_BARRIER;
}
#endif

/* y_rn (+)= sum_k a_rk b_kn of R rows and C vectors of columns. */
#define DEFINE_BLOCK(name, R, C)                                                                                   \
  INLINE void name(float *y, int64_t stride, const float *a, int64_t a_row, int64_t a_k, const float *b,        \
                   int64_t b_stride, int64_t k, int add) {                                                     \
    V sum[R][C];                                                                                               \
    for (int r = 0; r < R; r++)                                                                                \
      for (int c = 0; c < C; c++) sum[r][c] = add ? load(y + r * stride + c * L) : (V){};                      \
    for (int64_t l = 0; l < k; l++) {                                                                          \
      V b_l[C];                                                                                                \
      for (int c = 0; c < C; c++) b_l[c] = load(b + l * b_stride + c * L);                                     \
      for (int r = 0; r < R; r++)                                                                              \
        for (int c = 0; c < C; c++) sum[r][c] += b_l[c] * a[r * a_row + l * a_k];                              \
    }                                                                                                          \
    for (int r = 0; r < R; r++)                                                                                \
      for (int c = 0; c < C; c++) store(y + r * stride + c * L, sum[r][c]);                                    \
  }
#if L == 16
enum { BLOCK_VECTORS = 4, BLOCK_ROWS = 6 };
#else
enum { BLOCK_VECTORS = 2, BLOCK_ROWS = 4 };
#endif
DEFINE_BLOCK(block_product, BLOCK_ROWS, BLOCK_VECTORS)
DEFINE_BLOCK(block_product_one_row, 1, BLOCK_VECTORS)
DEFINE_BLOCK(block_product_one_vector, BLOCK_ROWS, 1)
DEFINE_BLOCK(block_product_single, 1, 1)

/* y (m, n) (+)= a b, with a_rk at a + r a_row + k a_k; n is a multiple of L. */
static void multiply(float *y, int64_t stride, const float *a, int64_t a_row, int64_t a_k, const float *b,
                     int64_t b_stride, int64_t m, int64_t n, int64_t k, int add) {
  int64_t c = 0;
  for (; c + BLOCK_VECTORS * L <= n; c += BLOCK_VECTORS * L) {
    int64_t r = 0;
    for (; r + BLOCK_ROWS <= m; r += BLOCK_ROWS)
      block_product(y + r * stride + c, stride, a + r * a_row, a_row, a_k, b + c, b_stride, k, add);
    for (; r < m; r++)
      block_product_one_row(y + r * stride + c, stride, a + r * a_row, a_row, a_k, b + c, b_stride, k, add);
  }
  for (; c < n; c += L) {
    int64_t r = 0;
    for (; r + BLOCK_ROWS <= m; r += BLOCK_ROWS)
      block_product_one_vector(y + r * stride + c, stride, a + r * a_row, a_row, a_k, b + c, b_stride, k, add);
    for (; r < m; r++)
      block_product_single(y + r * stride + c, stride, a + r * a_row, a_row, a_k, b + c, b_stride, k, add);
  }
}

/* The tiles into which a thread that uses AMX packs its rows: two operands. */
typedef struct {
  int use_amx;
  Tile *a, *b;
} Workspace;

/* The number of tiles of an operand of `rows` rows and `columns` columns. */
static size_t workspace_tiles(int64_t rows, int64_t columns) {
  return (size_t)(round_up(rows, ROW_MULTIPLE) / TILE_SIDE * (round_up(columns, TILE_DEPTH) / TILE_DEPTH));
}

/* The number of floats that `pack_weights` writes. */
static int64_t packed_size(int64_t in, int64_t out, int use_amx, int backward) {
  return use_amx ? in * out * (backward ? 2 : 1) : backward ? 0 : in * out;
}

/* Copies W to `space` in the memory layout that forward or backward needs. */
static void pack_weights(Weights *w, float *space, int use_amx, int backward) {
  (void)use_amx;
#if HAS_AMX
  if (use_amx) {
    w->forward_tiles = (Tile *)space, w->backward_tiles = w->forward_tiles + w->in * w->out / (TILE_SIDE * TILE_DEPTH);
    for (int64_t n = 0; n < w->out / TILE_SIDE; n++)
      for (int64_t k = 0; k < w->in / TILE_DEPTH && !backward; k++)
        pack_column_pairs(w->forward_tiles + n * (w->in / TILE_DEPTH) + k,
                          w->w + n * TILE_SIDE * w->in + k * TILE_DEPTH, w->in, TILE_SIDE, 1);
    for (int64_t n = 0; n < w->in / TILE_SIDE && backward; n++)
      for (int64_t k = 0; k < w->out / TILE_DEPTH; k++)
        pack_row_pairs(w->backward_tiles + n * (w->out / TILE_DEPTH) + k,
                       w->w + k * TILE_DEPTH * w->in + n * TILE_SIDE, w->in, TILE_DEPTH, 0);
    return;
  }
#endif
  if (backward) return;
  w->transposed = space;
  for (int64_t o = 0; o < w->out; o++)
    for (int64_t i = 0; i < w->in; i++) w->transposed[i * w->out + o] = w->w[o * w->in + i];
}

/* y = x W^T of m rows; y is allocated for m rounded up to a multiple of 32. */
static void linear_forward(const Weights *w, const Workspace *workspace, float *y, const float *x, int64_t m) {
#if HAS_AMX
  if (workspace->use_amx) {
    const int64_t k = w->in / TILE_DEPTH, tiles = round_up(m, ROW_MULTIPLE) / TILE_SIDE;
    for (int64_t i = 0; i < tiles; i++)
      for (int64_t l = 0; l < k; l++)
        pack_column_pairs(workspace->a + i * k + l, x + i * TILE_SIDE * w->in + l * TILE_DEPTH, w->in,
                          m - i * TILE_SIDE, 0);
    multiply_tiles(y, w->out, workspace->a, w->forward_tiles, tiles, w->out / TILE_SIDE, k, 0);
    return;
  }
#endif
  (void)workspace;
  multiply(y, w->out, x, w->in, 1, w->transposed, w->out, m, w->out, w->in, 0);
}

/* dL/dx = dy W of m rows; dx is allocated as y above. */
static void linear_backward_input(const Weights *w, const Workspace *workspace, float *dx, const float *dy, int64_t m) {
#if HAS_AMX
  if (workspace->use_amx) {
    const int64_t k = w->out / TILE_DEPTH, tiles = round_up(m, ROW_MULTIPLE) / TILE_SIDE;
    for (int64_t i = 0; i < tiles; i++)
      for (int64_t l = 0; l < k; l++)
        pack_column_pairs(workspace->a + i * k + l, dy + i * TILE_SIDE * w->out + l * TILE_DEPTH, w->out,
                          m - i * TILE_SIDE, 0);
    multiply_tiles(dx, w->in, workspace->a, w->backward_tiles, tiles, w->in / TILE_SIDE, k, 0);
    return;
  }
#endif
  (void)workspace;
  multiply(dx, w->in, dy, w->out, 1, w->w, w->in, m, w->in, w->out, 0);
}

/* dL/dW += dy^T x of m rows. */
static void linear_backward_weight(const Weights *w, const Workspace *workspace, float *d_w, const float *dy,
                                   const float *x, int64_t m) {
#if HAS_AMX
  if (workspace->use_amx) {
    const int64_t k = round_up(m, TILE_DEPTH) / TILE_DEPTH;
    for (int64_t l = 0; l < k; l++) {
      for (int64_t i = 0; i < w->out / TILE_SIDE; i++)
        pack_row_pairs(workspace->a + i * k + l, dy + l * TILE_DEPTH * w->out + i * TILE_SIDE, w->out,
                       m - l * TILE_DEPTH, 1);
      for (int64_t j = 0; j < w->in / TILE_SIDE; j++)
        pack_row_pairs(workspace->b + j * k + l, x + l * TILE_DEPTH * w->in + j * TILE_SIDE, w->in,
                       m - l * TILE_DEPTH, 0);
    }
    multiply_tiles(d_w, w->in, workspace->a, workspace->b, w->out / TILE_SIDE, w->in / TILE_SIDE, k, 1);
    return;
  }
#endif
  (void)workspace;
  multiply(d_w, w->in, dy, 1, w->out, x, w->in, w->out, w->in, m, 1);
}

#endif
