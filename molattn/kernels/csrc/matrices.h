/* Products of a few hundred rows with small matrices of weights, and their gradients.
 *
 * Two ways. In vectors of float32, or in bfloat16 on processors with matrix units for it (AMX): each number is then
 * taken as the sum of two of bfloat16, hi + lo, and a b as hi hi + hi lo + lo hi, which has some 16 bits, in a third of
 * the time. Either way a row of a product depends on that row alone, not on those beside it. */

#ifndef MOLATTN_MATRICES_H
#define MOLATTN_MATRICES_H

#include "vectors.h"

#if defined(__AMX_BF16__) && defined(__linux__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#define HAS_UNITS 1
#else
#define HAS_UNITS 0
#endif

enum { SIDE = 16, DEPTH = 32, ROWS_UP = 32 };

/* 16 rows of 32 numbers, or 32 rows of 16, as pairs (x_j, x_j+16) of bfloat16. */
typedef struct {
  int32_t hi[SIDE][SIDE], lo[SIDE][SIDE];
} Tile __attribute__((aligned(64)));

/* A linear map y = x W^T, ready to be used: of W, (out, in), what the way that is taken needs. */
typedef struct {
  int64_t in, out;
  const float *w;
  float *turned;      /* (in, out) */
  Tile *forth, *back; /* (out / 16, in / 32), (in / 16, out / 32) */
} Weights;

/* Whether the processor has matrix units, and the kernel lets this process use them. */
static int has_units(void) {
#if HAS_UNITS
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
  static int known = -1;
  if (known < 0) known = !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA);
  return known;
#else
  return 0;
#endif
}

/* A thread's matrix units: 8 tiles of 16 rows of 64 bytes; and free again. */
static void units_on(void) {
#if HAS_UNITS
  struct {
    uint8_t palette, start, none[14];
    uint16_t bytes[16];
    uint8_t rows[16];
  } shape = {.palette = 1};
  for (int i = 0; i < 8; i++) shape.bytes[i] = 64, shape.rows[i] = SIDE;
  _tile_loadconfig(&shape);
#endif
}
static void units_off(void) {
#if HAS_UNITS
  _tile_release();
#endif
}

#if HAS_UNITS
/* Two vectors as pairs of bfloat16, rounded to the nearest; what that leaves of them, in the same way. */
INLINE void pair(int32_t *hi, int32_t *lo, V x, V y) {
  const I top = (I){} + (int32_t)0xffff0000, half = (I){} + 0x8000;
  const I x_hi = ((I)x + half) & top, y_hi = ((I)y + half) & top;
  const I x_lo = (I)(x - (V)x_hi) + half, y_lo = (I)(y - (V)y_hi) + half;
  *(I *)hi = (I)((U)x_hi >> 16) | y_hi;
  *(I *)lo = (I)((U)x_lo >> 16) | (y_lo & top);
}

INLINE void turn_tile(int32_t of[SIDE][SIDE]) {
  V x[L];
  for (int i = 0; i < L; i++) x[i] = load((const float *)of[i]);
  transpose(x);
  for (int i = 0; i < L; i++) store((float *)of[i], x[i]);
}

/* 16 rows of 32 columns, of which `rows` are there, paired along the columns. */
static void tile_across(Tile *to, const float *x, int64_t stride, int64_t rows, int turned) {
  for (int64_t r = 0; r < SIDE; r++)
    if (r < rows) pair(to->hi[r], to->lo[r], load(x + r * stride), load(x + r * stride + SIDE));
    else memset(to->hi[r], 0, sizeof to->hi[r]), memset(to->lo[r], 0, sizeof to->lo[r]);
  if (turned) turn_tile(to->hi), turn_tile(to->lo);
}

/* 32 rows of 16 columns, of which `rows` are there, paired along the rows. */
static void tile_down(Tile *to, const float *x, int64_t stride, int64_t rows, int turned) {
  for (int64_t r = 0; r < SIDE; r++)
    pair(to->hi[r], to->lo[r], r < rows ? load(x + r * stride) : (V){},
         r + SIDE < rows ? load(x + (r + SIDE) * stride) : (V){});
  if (turned) turn_tile(to->hi), turn_tile(to->lo);
}

#define EACH_TILE(does, y) /* statements of assembler, each of them */                                           \
  does(0, y, bytes); does(1, y + SIDE, bytes); does(2, y + SIDE * stride, bytes); does(3, y + SIDE * stride + SIDE, bytes);
#define LOAD(one, two, from, part) _tile_loadd(one, (from)->part, 64); _tile_loadd(two, (from + k)->part, 64);
#define ADD_PRODUCTS _tile_dpbf16ps(0, 4, 6); _tile_dpbf16ps(1, 4, 7); _tile_dpbf16ps(2, 5, 6); _tile_dpbf16ps(3, 5, 7);
/* The compiler does not know that tiles are memory. */
#define AS_WRITTEN __asm__ volatile("" ::: "memory")

/* y (+)= a b of tiles (m, k) and (n, k); y has 16 m rows and 16 n columns. */
static void multiply_tiles(float *y, int64_t stride, const Tile *a, const Tile *b, int64_t m, int64_t n, int64_t k,
                           int add) {
  const int64_t bytes = stride * (int64_t)sizeof(float);
  AS_WRITTEN;
  for (int64_t j = 0; j < n; j += 2)
    for (int64_t i = 0; i < m; i += 2) {
      float *here = y + i * SIDE * stride + j * SIDE;
      if (add) {
        EACH_TILE(_tile_loadd, here)
      } else {
        _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
      }
      const Tile *of_a = a + i * k, *of_b = b + j * k;
      for (int64_t l = 0; l < k; l++, of_a++, of_b++) {
        LOAD(4, 5, of_a, hi) LOAD(6, 7, of_b, lo) ADD_PRODUCTS
        LOAD(6, 7, of_b, hi) ADD_PRODUCTS
        LOAD(4, 5, of_a, lo) ADD_PRODUCTS
      }
      EACH_TILE(_tile_stored, here)
    }
  AS_WRITTEN;
}
#endif

/* y_rn (+)= sum_k a_rk b_kn of R rows and C vectors of columns. */
#define BLOCK_OF(name, R, C)                                                                                   \
  INLINE void name(float *y, int64_t stride, const float *a, int64_t a_row, int64_t a_k, const float *b,        \
                   int64_t b_stride, int64_t k, int add) {                                                     \
    V sum[R][C];                                                                                               \
    for (int r = 0; r < R; r++)                                                                                \
      for (int c = 0; c < C; c++) sum[r][c] = add ? load(y + r * stride + c * L) : (V){};                      \
    for (int64_t l = 0; l < k; l++) {                                                                          \
      V of_b[C];                                                                                               \
      for (int c = 0; c < C; c++) of_b[c] = load(b + l * b_stride + c * L);                                    \
      for (int r = 0; r < R; r++)                                                                              \
        for (int c = 0; c < C; c++) sum[r][c] += of_b[c] * a[r * a_row + l * a_k];                             \
    }                                                                                                          \
    for (int r = 0; r < R; r++)                                                                                \
      for (int c = 0; c < C; c++) store(y + r * stride + c * L, sum[r][c]);                                    \
  }
#if L == 16
enum { WIDE = 4, TALL = 6 };
#else
enum { WIDE = 2, TALL = 4 };
#endif
BLOCK_OF(block_full, TALL, WIDE)
BLOCK_OF(block_flat, 1, WIDE)
BLOCK_OF(block_slim, TALL, 1)
BLOCK_OF(block_least, 1, 1)

/* y (m, n) (+)= a b, with a_rk at a + r a_row + k a_k; n is a multiple of L. */
static void multiply(float *y, int64_t stride, const float *a, int64_t a_row, int64_t a_k, const float *b,
                     int64_t b_stride, int64_t m, int64_t n, int64_t k, int add) {
  int64_t c = 0;
  for (; c + WIDE * L <= n; c += WIDE * L) {
    int64_t r = 0;
    for (; r + TALL <= m; r += TALL)
      block_full(y + r * stride + c, stride, a + r * a_row, a_row, a_k, b + c, b_stride, k, add);
    for (; r < m; r++) block_flat(y + r * stride + c, stride, a + r * a_row, a_row, a_k, b + c, b_stride, k, add);
  }
  for (; c < n; c += L) {
    int64_t r = 0;
    for (; r + TALL <= m; r += TALL)
      block_slim(y + r * stride + c, stride, a + r * a_row, a_row, a_k, b + c, b_stride, k, add);
    for (; r < m; r++) block_least(y + r * stride + c, stride, a + r * a_row, a_row, a_k, b + c, b_stride, k, add);
  }
}

/* What a thread turns rows into, on the way by units: tiles of `rows` rows and up to `columns` columns, twice. */
typedef struct {
  int units;
  Tile *a, *b;
} Desk;

static size_t desk_tiles(int64_t rows, int64_t columns) {
  return (size_t)(up(rows, ROWS_UP) / SIDE * (up(columns, DEPTH) / DEPTH));
}

/* The space, in floats, that `prepare` takes. */
static int64_t weights_space(int64_t in, int64_t out, int units, int backward) {
  return units ? in * out * (backward ? 2 : 1) : backward ? 0 : in * out;
}

static void prepare(Weights *of, float *space, int units, int backward) {
  (void)units;
#if HAS_UNITS
  if (units) {
    of->forth = (Tile *)space, of->back = of->forth + of->in * of->out / (SIDE * DEPTH);
    for (int64_t n = 0; n < of->out / SIDE; n++)
      for (int64_t k = 0; k < of->in / DEPTH && !backward; k++)
        tile_across(of->forth + n * (of->in / DEPTH) + k, of->w + n * SIDE * of->in + k * DEPTH, of->in, SIDE, 1);
    for (int64_t n = 0; n < of->in / SIDE && backward; n++)
      for (int64_t k = 0; k < of->out / DEPTH; k++)
        tile_down(of->back + n * (of->out / DEPTH) + k, of->w + k * DEPTH * of->in + n * SIDE, of->in, DEPTH, 0);
    return;
  }
#endif
  if (backward) return;
  of->turned = space;
  for (int64_t o = 0; o < of->out; o++)
    for (int64_t i = 0; i < of->in; i++) of->turned[i * of->out + o] = of->w[o * of->in + i];
}

/* y = x W^T of m rows; y has room for a multiple of 32 of them. */
static void apply(const Weights *of, const Desk *desk, float *y, const float *x, int64_t m) {
#if HAS_UNITS
  if (desk->units) {
    const int64_t k = of->in / DEPTH, tiles = up(m, ROWS_UP) / SIDE;
    for (int64_t i = 0; i < tiles; i++)
      for (int64_t l = 0; l < k; l++)
        tile_across(desk->a + i * k + l, x + i * SIDE * of->in + l * DEPTH, of->in, m - i * SIDE, 0);
    multiply_tiles(y, of->out, desk->a, of->forth, tiles, of->out / SIDE, k, 0);
    return;
  }
#endif
  (void)desk;
  multiply(y, of->out, x, of->in, 1, of->turned, of->out, m, of->out, of->in, 0);
}

/* dL/dx = dy W of m rows; dx has room for a multiple of 32. */
static void apply_back(const Weights *of, const Desk *desk, float *dx, const float *dy, int64_t m) {
#if HAS_UNITS
  if (desk->units) {
    const int64_t k = of->out / DEPTH, tiles = up(m, ROWS_UP) / SIDE;
    for (int64_t i = 0; i < tiles; i++)
      for (int64_t l = 0; l < k; l++)
        tile_across(desk->a + i * k + l, dy + i * SIDE * of->out + l * DEPTH, of->out, m - i * SIDE, 0);
    multiply_tiles(dx, of->in, desk->a, of->back, tiles, of->in / SIDE, k, 0);
    return;
  }
#endif
  (void)desk;
  multiply(dx, of->in, dy, of->out, 1, of->w, of->in, m, of->in, of->out, 0);
}

/* dL/dW += dy^T x of m rows. */
static void add_gradient(const Weights *of, const Desk *desk, float *d_w, const float *dy, const float *x, int64_t m) {
#if HAS_UNITS
  if (desk->units) {
    const int64_t k = up(m, DEPTH) / DEPTH;
    for (int64_t l = 0; l < k; l++) {
      for (int64_t i = 0; i < of->out / SIDE; i++)
        tile_down(desk->a + i * k + l, dy + l * DEPTH * of->out + i * SIDE, of->out, m - l * DEPTH, 1);
      for (int64_t j = 0; j < of->in / SIDE; j++)
        tile_down(desk->b + j * k + l, x + l * DEPTH * of->in + j * SIDE, of->in, m - l * DEPTH, 0);
    }
    multiply_tiles(d_w, of->in, desk->a, desk->b, of->out / SIDE, of->in / SIDE, k, 1);
    return;
  }
#endif
  (void)desk;
  multiply(d_w, of->in, dy, 1, of->out, x, of->in, of->out, of->in, m, 1);
}

#endif
