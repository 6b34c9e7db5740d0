/* Attention over dense graphs with edge features, forward and backward, a graph at a time in a core's own cache.
 *
 * The equations are those of molattn/graph/dense.py, with its letters: h heads of d channels, n nodes, f channels of
 * the edges, receiver i, sender j. What a graph needs fits into the first or second level of the cache, nothing is
 * padded but the ends of vectors, and a batch of mixed sizes costs what its graphs cost.
 *
 * Vectors are GCC's and Clang's own (16 floats), which they cut into what the processor has. Lanes are senders j
 * (keys and edges transposed) where a sum runs over channels, and channels where it runs over senders: no sum crosses
 * the lanes but the two of a softmax. Every phase runs over all heads before the next begins, since the heads do not
 * wait for each other. */

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LANES 16
#define EDGE_LANES 8
typedef float V __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t I __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float E __attribute__((vector_size(4 * EDGE_LANES), aligned(4), may_alias));
#define INLINE static inline __attribute__((always_inline))
#define FLOATS(count) ((size_t)(count) * sizeof(float))
#define LOWEST (-3.402823466e38f)

/* Graphs that stand in dense tensors of n nodes: molattn.graph.compiled.Graphs. */
typedef struct {
  int64_t start, count, n;  /* the first row of theirs; how many graphs; nodes with padding */
  const int64_t *sizes;     /* (count,) nodes without padding; NULL where there is none */
  const float *e;           /* (count, n, n, f) */
  const uint8_t *allowed;   /* (count, n, n), or NULL where every node attends to every other */
  const float *kept;        /* (count, h, n, n), what weights are multiplied by, or NULL */
  float *weights;           /* (count, h, n, n), or NULL where nobody wants them */
  float *d_e;               /* (count, n, n, f), or NULL */
} Graphs;

/* molattn.graph.compiled.Task */
typedef struct {
  int64_t h, d, f, parts, count; /* parts of a row of packed: q, k, v and perhaps what is added; count of buckets */
  float scale;
  const float *packed;           /* (rows, parts, h, d) */
  const float *w_ke, *w_ve;      /* (h, d, f) */
  const float *w_be;             /* (h, f), or NULL */
  const Graphs *graphs;
  float *output;                 /* (rows, h, d) */
  const float *dy;               /* (rows, h, d) */
  float *d_packed;               /* (rows, parts, h, d) */
  float *d_w_ke, *d_w_ve;        /* (h, d, f) */
  float *d_w_be;                 /* (h, f), or NULL */
} Task;

INLINE int64_t up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }
INLINE V load(const float *p) { return *(const V *)p; }
INLINE void store(float *p, V x) { *(V *)p = x; }
INLINE E load_e(const float *p) { return *(const E *)p; }
INLINE void store_e(float *p, E x) { *(E *)p = x; }
INLINE V pick(I where, V a, V b) { return (V)(((I)a & where) | ((I)b & ~where)); }
INLINE V larger(V a, V b) { return pick(a > b, a, b); }

#ifdef __clang__
#define SWAPPED(x, ...) __builtin_shufflevector(x, x, __VA_ARGS__)
#else
#define SWAPPED(x, ...) __builtin_shuffle(x, (I){__VA_ARGS__})
#endif
#define FOLD(x, op)                                                            \
  x = op(x, SWAPPED(x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)); \
  x = op(x, SWAPPED(x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)); \
  x = op(x, SWAPPED(x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)); \
  x = op(x, SWAPPED(x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14))
INLINE V plus(V a, V b) { return a + b; }
INLINE float sum(V x) { FOLD(x, plus); return x[0]; }
INLINE float largest(V x) { FOLD(x, larger); return x[0]; }

/* e^x of x <= 0, to one unit in the last place: 2^k e^r, |r| <= ln(2) / 2, by a polynomial. NaN stays NaN. */
INLINE V exponential(V x) {
  const V zero = {};
  x = pick(x < -87.0f, zero - 87.0f, x);
  I k = __builtin_convertvector(x * 1.44269504f - 0.5f, I);
  V r = x - __builtin_convertvector(k, V) * 0.693359375f + __builtin_convertvector(k, V) * 2.12194440e-4f;
  V p = zero + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return (p * r * r + r + 1.0f) * (V)((k + 127) << 23);
}

/* (n, f) to (f, m): channels by senders. */
INLINE void transpose_edges(float *to, const float *from, int64_t n, int64_t m, int64_t f) {
  for (int64_t j = 0; j < n; j++)
    for (int64_t c = 0; c < f; c++) to[c * m + j] = from[j * f + c];
}

/* Rows of f numbers with room for whole vectors behind: as they are where they have it. */
INLINE const float *padded_rows(float *to, const float *from, int64_t rows, int64_t f, int64_t F) {
  if (f == F) return from;
  for (int64_t j = 0; j < rows; j++) {
    for (int64_t c = 0; c < f; c++) to[j * F + c] = from[j * f + c];
    for (int64_t c = f; c < F; c++) to[j * F + c] = 0;
  }
  return to;
}

/* (d, f) of every head, padded: (h, d, F), and transposed, (h, f, D). */
static void lay_out(float *wide, float *turned, const float *w, int64_t h, int64_t d, int64_t f, int64_t D, int64_t F) {
  memset(wide, 0, FLOATS(h * d * F));
  memset(turned, 0, FLOATS(h * f * D));
  for (int64_t k = 0; k < h; k++)
    for (int64_t c = 0; c < d; c++)
      for (int64_t x = 0; x < f; x++)
        wide[(k * d + c) * F + x] = turned[(k * f + x) * D + c] = w[(k * d + c) * f + x];
}

/* sum_c q_c W_c. of a head: (F,). */
INLINE void ask_edges(float *to, const float *q, const float *w, int64_t d, int64_t F) {
  for (int64_t c = 0; c < F; c += EDGE_LANES) {
    E s0 = {}, s1 = {};
    int64_t x = 0;
    for (; x + 2 <= d; x += 2) {
      s0 += q[x] * load_e(w + x * F + c);
      s1 += q[x + 1] * load_e(w + (x + 1) * F + c);
    }
    for (; x < d; x++) s0 += q[x] * load_e(w + x * F + c);
    store_e(to + c, s0 + s1);
  }
}

/* q . k_j + a . e_j of all senders: (m,). */
INLINE void products(float *to, const float *q, const float *kT, const float *a, const float *eT, int64_t m, int64_t d,
                     int64_t f) {
  for (int64_t j = 0; j < m; j += LANES) {
    V s0 = {}, s1 = {};
    for (int64_t c = 0; c < d; c++) s0 += q[c] * load(kT + c * m + j);
    for (int64_t c = 0; c < f; c++) s1 += a[c] * load(eT + c * m + j);
    store(to + j, s0 + s1);
  }
}

/* sum_j w_j e_j: (F,). */
INLINE void sum_edges(float *to, const float *w, const float *e, int64_t n, int64_t F) {
  for (int64_t c = 0; c < F; c += EDGE_LANES) {
    E s[4] = {};
    int64_t j = 0;
    for (; j + 4 <= n; j += 4)
      for (int x = 0; x < 4; x++) s[x] += w[j + x] * load_e(e + (j + x) * F + c);
    for (; j < n; j++) s[0] += w[j] * load_e(e + j * F + c);
    store_e(to + c, (s[0] + s[1]) + (s[2] + s[3]));
  }
}

/* sum_j w_j v_j + sum_x es_x W_x., one vector of channels. */
INLINE V sum_values(const float *w, const float *v, int64_t n, const float *es, const float *turned, int64_t f,
                    int64_t D) {
  V s[4] = {};
  int64_t j = 0;
  for (; j + 4 <= n; j += 4)
    for (int x = 0; x < 4; x++) s[x] += w[j + x] * load(v + (j + x) * D);
  for (; j < n; j++) s[0] += w[j] * load(v + j * D);
  for (int64_t x = 0; x < f; x++) s[x & 3] += es[x] * load(turned + x * D);
  return (s[0] + s[1]) + (s[2] + s[3]);
}

INLINE void store_some(float *to, V x, int64_t count) {
  if (count >= LANES) store(to, x);
  else for (int64_t c = 0; c < count; c++) to[c] = x[c];
}

/* A part of the rows of a graph with the channels of a head together, (h, n, D), and turned, (h d, m). */
INLINE void by_head(float *to, const float *rows, int64_t stride, int64_t n, int64_t h, int64_t d, int64_t D) {
  for (int64_t k = 0; k < h; k++)
    for (int64_t j = 0; j < n; j++) {
      float *row = to + (k * n + j) * D;
      for (int64_t c = 0; c < d; c++) row[c] = rows[j * stride + k * d + c];
      for (int64_t c = d; c < D; c++) row[c] = 0;
    }
}

INLINE void turned(float *to, const float *rows, int64_t stride, int64_t n, int64_t m, int64_t channels) {
  memset(to, 0, FLOATS(channels * m));
  for (int64_t j = 0; j < n; j++)
    for (int64_t c = 0; c < channels; c++) to[c * m + j] = rows[j * stride + c];
}

/* The senders that may not be heard get the lowest logit; false where none may. */
INLINE int lower(float *logits, const uint8_t *allowed, int64_t n) {
  int any = allowed == NULL;
  if (allowed)
    for (int64_t j = 0; j < n; j++) {
      if (!allowed[j]) logits[j] = LOWEST;
      any |= allowed[j];
    }
  return any;
}

typedef struct {
  const Task *task;
  int64_t from, to; /* graphs of all buckets together */
  float *space;
  float *d_w_ke, *d_w_ve, *d_w_be; /* (h, f, D), (h, f, D), (h, F): of these graphs alone */
  int failed;
} Part;

INLINE void forward_graph(const Task *t, const Graphs *b, int64_t g, float *space, const float *w_ke, const float *w_ve,
                          const int64_t d, const int64_t f) {
  const int64_t h = t->h, F = up(f, EDGE_LANES), D = up(d, LANES), stride = t->parts * h * d;
  const int64_t n = b->sizes ? b->sizes[g] : b->n, m = up(n, LANES), row = b->start + g * b->n;
  float *kT = space, *v = kT + h * d * m, *eT = v + h * n * D, *e_rows = eT + f * m, *logits = e_rows + n * F;
  float *q = logits + h * m, *asked = q + h * d, *sums = asked + h * F, *peak = sums + h * F, *share = peak + h;
  const float *packed = t->packed + row * stride;
  turned(kT, packed + h * d, stride, n, m, h * d);
  by_head(v, packed + 2 * h * d, stride, n, h, d, D);
  memset(eT, 0, FLOATS(f * m));
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = (g * b->n + i) * b->n;
    const float *e = b->e + at * f, *e_wide = padded_rows(e_rows, e, n, f, F);
    const uint8_t *allowed = b->allowed ? b->allowed + at : NULL;
    const float *own = packed + i * stride;
    transpose_edges(eT, e, n, m, f);
    for (int64_t c = 0; c < h * d; c++) q[c] = own[c] * t->scale;
    for (int64_t k = 0; k < h; k++) ask_edges(asked + k * F, q + k * d, w_ke + k * d * F, d, F);
    if (t->w_be)
      for (int64_t k = 0; k < h; k++)
        for (int64_t c = 0; c < f; c++) asked[k * F + c] += t->w_be[k * f + c];
    for (int64_t k = 0; k < h; k++) products(logits + k * m, q + k * d, kT + k * d * m, asked + k * F, eT, m, d, f);
    int any = 1;
    for (int64_t k = 0; k < h; k++) {
      float *x = logits + k * m;
      for (int64_t j = n; j < m; j++) x[j] = LOWEST;
      any = lower(x, allowed, n);
      V top = load(x);
      for (int64_t j = LANES; j < m; j += LANES) top = larger(load(x + j), top);
      peak[k] = largest(top);
    }
    for (int64_t k = 0; k < h; k++) {
      float *x = logits + k * m;
      for (int64_t j = 0; j < m; j += LANES) store(x + j, exponential(load(x + j) - peak[k]));
      for (int64_t j = n; j < m; j++) x[j] = 0;
      if (allowed)
        for (int64_t j = 0; j < n; j++) x[j] = allowed[j] ? x[j] : 0;
      V total = {};
      for (int64_t j = 0; j < m; j += LANES) total += load(x + j);
      share[k] = any ? 1.0f / sum(total) : 0.0f;
    }
    for (int64_t k = 0; k < h; k++) {
      float *x = logits + k * m;
      const int64_t here = ((g * h + k) * b->n + i) * b->n;
      for (int64_t j = 0; j < m; j += LANES) store(x + j, load(x + j) * share[k]);
      if (b->weights) memcpy(b->weights + here, x, FLOATS(n));
      if (b->kept)
        for (int64_t j = 0; j < n; j++) x[j] *= b->kept[here + j];
    }
    for (int64_t k = 0; k < h; k++) sum_edges(sums + k * F, logits + k * m, e_wide, n, F);
    for (int64_t k = 0; k < h; k++)
      for (int64_t c = 0; c < D; c += LANES) {
        V o = sum_values(logits + k * m, v + k * n * D + c, n, sums + k * F, w_ve + k * f * D + c, f, D);
        store_some(t->output + ((row + i) * h + k) * d + c, o, d - c);
      }
  }
  for (int64_t i = n; i < b->n; i++) memset(t->output + (row + i) * h * d, 0, FLOATS(h * d));
  if (t->parts == 4)
    for (int64_t i = 0; i < b->n; i++)
      for (int64_t c = 0; c < h * d; c++) t->output[(row + i) * h * d + c] += packed[i * stride + 3 * h * d + c];
}

INLINE void backward_graph(const Task *t, const Graphs *b, int64_t g, float *space, const float *w_ke_wide,
                           const float *w_ke, const float *w_ve_wide, const Part *part, const int64_t d,
                           const int64_t f) {
  const int64_t h = t->h, F = up(f, EDGE_LANES), D = up(d, LANES), stride = t->parts * h * d;
  const int64_t n = b->sizes ? b->sizes[g] : b->n, m = up(n, LANES), row = b->start + g * b->n;
  float *vT = space, *keys = vT + h * d * m, *d_k = keys + h * n * D, *d_v = d_k + h * n * D, *eT = d_v + h * n * D;
  float *e_rows = eT + f * m, *d_w = e_rows + n * F, *w = d_w + h * m, *used = w + h * m;
  float *q = used + h * m, *dy = q + h * D, *asked = dy + h * D, *d_sums = asked + h * F, *d_asked = d_sums + h * F;
  float *sums = d_asked + h * F, *d_edge = sums + h * F;
  const float *packed = t->packed + row * stride;
  float *d_packed = t->d_packed + row * stride;
  turned(vT, packed + 2 * h * d, stride, n, m, h * d);
  by_head(keys, packed + h * d, stride, n, h, d, D);
  memset(d_k, 0, FLOATS(2 * h * n * D));
  memset(eT, 0, FLOATS(f * m));
  memset(q, 0, FLOATS(2 * h * D));
  memset(w, 0, FLOATS(2 * h * m));
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = (g * b->n + i) * b->n;
    const float *e = b->e + at * f, *e_wide = padded_rows(e_rows, e, n, f, F);
    transpose_edges(eT, e, n, m, f);
    for (int64_t k = 0; k < h; k++)
      for (int64_t c = 0; c < d; c++) {
        q[k * D + c] = packed[i * stride + k * d + c] * t->scale;
        dy[k * D + c] = t->dy[((row + i) * h + k) * d + c];
      }
    for (int64_t k = 0; k < h; k++) ask_edges(d_sums + k * F, dy + k * D, w_ve_wide + k * d * F, d, F);
    for (int64_t k = 0; k < h; k++) products(d_w + k * m, dy + k * D, vT + k * d * m, d_sums + k * F, eT, m, d, f);
    for (int64_t k = 0; k < h; k++) {
      const int64_t here = ((g * h + k) * b->n + i) * b->n;
      memcpy(w + k * m, b->weights + here, FLOATS(n));
      memcpy(used + k * m, w + k * m, FLOATS(n));
      if (b->kept)
        for (int64_t j = 0; j < n; j++) {
          used[k * m + j] *= b->kept[here + j];
          d_w[k * m + j] *= b->kept[here + j];
        }
    }
    /* dL/da_ij = w_ij (dL/dw_ij - sum_j w_ij dL/dw_ij) */
    for (int64_t k = 0; k < h; k++) {
      V dot = {};
      for (int64_t j = 0; j < m; j += LANES) dot += load(w + k * m + j) * load(d_w + k * m + j);
      const float all = sum(dot);
      for (int64_t j = 0; j < m; j += LANES)
        store(d_w + k * m + j, load(w + k * m + j) * (load(d_w + k * m + j) - all));
    }
    for (int64_t k = 0; k < h; k++) {
      sum_edges(d_asked + k * F, d_w + k * m, e_wide, n, F);
      sum_edges(sums + k * F, used + k * m, e_wide, n, F);
    }
    for (int64_t k = 0; k < h; k++)
      for (int64_t c = 0; c < D; c += LANES) {
        const V q_here = load(q + k * D + c), dy_here = load(dy + k * D + c);
        V d_q = sum_values(d_w + k * m, keys + k * n * D + c, n, d_asked + k * F, w_ke + k * f * D + c, f, D);
        store_some(d_packed + i * stride + k * d + c, d_q * t->scale, d - c);
        float *to_k = d_k + k * n * D + c, *to_v = d_v + k * n * D + c;
        for (int64_t j = 0; j < n; j++) {
          store(to_k + j * D, load(to_k + j * D) + d_w[k * m + j] * q_here);
          store(to_v + j * D, load(to_v + j * D) + used[k * m + j] * dy_here);
        }
        for (int64_t x = 0; x < f; x++) {
          float *to_ke = part->d_w_ke + (k * f + x) * D + c, *to_ve = part->d_w_ve + (k * f + x) * D + c;
          store(to_ke, load(to_ke) + d_asked[k * F + x] * q_here);
          store(to_ve, load(to_ve) + sums[k * F + x] * dy_here);
        }
      }
    if (t->d_w_be)
      for (int64_t c = 0; c < h * F; c++) part->d_w_be[c] += d_asked[c];
    if (b->d_e) {
      for (int64_t k = 0; k < h; k++) ask_edges(asked + k * F, q + k * D, w_ke_wide + k * d * F, d, F);
      if (t->w_be)
        for (int64_t k = 0; k < h; k++)
          for (int64_t c = 0; c < f; c++) asked[k * F + c] += t->w_be[k * f + c];
      float *d_e = b->d_e + at * f;
      for (int64_t j = 0; j < n; j++) {
        for (int64_t c = 0; c < F; c += EDGE_LANES) {
          E s0 = {}, s1 = {};
          for (int64_t k = 0; k < h; k++) {
            s0 += d_w[k * m + j] * load_e(asked + k * F + c);
            s1 += used[k * m + j] * load_e(d_sums + k * F + c);
          }
          store_e(d_edge + c, s0 + s1);
        }
        memcpy(d_e + j * f, d_edge, FLOATS(f));
      }
      memset(d_e + n * f, 0, FLOATS((b->n - n) * f));
    }
  }
  for (int64_t j = 0; j < n; j++)
    for (int64_t k = 0; k < h; k++) {
      memcpy(d_packed + j * stride + (h + k) * d, d_k + (k * n + j) * D, FLOATS(d));
      memcpy(d_packed + j * stride + (2 * h + k) * d, d_v + (k * n + j) * D, FLOATS(d));
    }
  for (int64_t i = n; i < b->n; i++) {
    memset(d_packed + i * stride, 0, FLOATS(3 * h * d));
    if (b->d_e) memset(b->d_e + (g * b->n + i) * b->n * f, 0, FLOATS(b->n * f));
  }
  if (t->parts == 4)
    for (int64_t i = 0; i < b->n; i++) memcpy(d_packed + i * stride + 3 * h * d, t->dy + (row + i) * h * d, FLOATS(h * d));
}

/* Scratch for a graph of n nodes; both directions fit into it. */
static size_t space_for(int64_t n, int64_t h, int64_t d, int64_t f) {
  const int64_t F = up(f, EDGE_LANES), D = up(d, LANES), m = up(n, LANES);
  return FLOATS(h * d * m + 3 * h * n * D + f * m + n * F + 3 * h * m + 2 * h * D + 4 * h * F + F + 2 * h + LANES);
}

INLINE void run(Part *part, int backward, const int64_t d, const int64_t f) {
  const Task *t = part->task;
  const int64_t h = t->h, F = up(f, EDGE_LANES), D = up(d, LANES);
  float *ke_wide = part->space, *ve_wide = ke_wide + h * d * F, *ke = ve_wide + h * d * F, *ve = ke + h * f * D;
  float *space = ve + h * f * D;
  lay_out(ke_wide, ke, t->w_ke, h, d, f, D, F);
  lay_out(ve_wide, ve, t->w_ve, h, d, f, D, F);
  int64_t first = 0;
  for (const Graphs *b = t->graphs; b < t->graphs + t->count; first += b->count, b++)
    for (int64_t g = 0; g < b->count; g++) {
      if (first + g < part->from || first + g >= part->to) continue;
      if (backward) backward_graph(t, b, g, space, ke_wide, ke, ve_wide, part, d, f);
      else forward_graph(t, b, g, space, ke_wide, ve, d, f);
    }
}

/* Sizes that the compiler knows make the inner loops straight lines. */
#define WITH_SIZES(part, backward)                                                  \
  do {                                                                              \
    const int64_t d_ = (part)->task->d, f_ = (part)->task->f;                       \
    if (d_ == 16 && f_ == 8) run(part, backward, 16, 8);                            \
    else if (d_ == 16) run(part, backward, 16, f_);                                 \
    else run(part, backward, d_, f_);                                               \
  } while (0)

static void *forward_part(void *part) { WITH_SIZES((Part *)part, 0); return NULL; }
static void *backward_part(void *part) { WITH_SIZES((Part *)part, 1); return NULL; }

/* Cut the graphs into runs of about equal work, one for each thread: which graph goes where depends on nothing but the
 * sizes and the number of threads, so that sums come out the same every time. Returns 0, or 1 without memory. */
static int in_parts(const Task *t, int threads, void *(*of_part)(void *), int backward) {
  const int64_t h = t->h, d = t->d, f = t->f, F = up(f, EDGE_LANES), D = up(d, LANES);
  int64_t largest_n = 0, graphs = 0;
  double work = 0, done = 0;
  for (const Graphs *b = t->graphs; b < t->graphs + t->count; b++)
    for (int64_t g = 0; g < b->count; g++, graphs++) {
      const int64_t n = b->sizes ? b->sizes[g] : b->n;
      if (n > largest_n) largest_n = n;
      work += (double)n * (n + 8);
    }
  if (threads < 1 || work * h < 16384) threads = 1; /* starting a thread costs as much as a few graphs */
  if (threads > graphs) threads = graphs ? (int)graphs : 1;
  const size_t sums = backward ? FLOATS(2 * h * f * D + h * F) : 0, weights = FLOATS(2 * h * (d * F + f * D));
  const size_t each = up(sums + weights + space_for(largest_n, h, d, f), 64);
  Part *parts = calloc(threads, sizeof(Part));
  pthread_t *ids = calloc(threads, sizeof(pthread_t));
  char *space = malloc(each * threads);
  if (!parts || !ids || !space) {
    free(parts), free(ids), free(space);
    return 1;
  }
  int64_t graph = 0;
  int part = 0;
  for (const Graphs *b = t->graphs; b < t->graphs + t->count; b++)
    for (int64_t g = 0; g < b->count; g++, graph++) {
      const int64_t n = b->sizes ? b->sizes[g] : b->n;
      while (part + 1 < threads && done >= work * (part + 1) / threads) parts[part++].to = graph, parts[part].from = graph;
      done += (double)n * (n + 8);
    }
  while (part + 1 < threads) parts[part++].to = graphs, parts[part].from = graphs;
  parts[part].to = graphs;
  for (int i = 0; i < threads; i++) {
    float *at = (float *)(space + each * i);
    memset(at, 0, sums);
    parts[i].task = t;
    parts[i].d_w_ke = at, parts[i].d_w_ve = at + h * f * D, parts[i].d_w_be = at + 2 * h * f * D;
    parts[i].space = (float *)((char *)at + sums);
  }
  int started = 1;
  for (; started < threads; started++)
    if (pthread_create(&ids[started], NULL, of_part, &parts[started])) break;
  of_part(&parts[0]);
  for (int i = started; i < threads; i++) of_part(&parts[i]); /* no more threads to be had: their work is done here */
  for (int i = 1; i < started; i++) pthread_join(ids[i], NULL);
  if (backward)
    for (int64_t k = 0; k < h; k++)
      for (int64_t x = 0; x < f; x++) {
        for (int64_t c = 0; c < d; c++) {
          float of_keys = 0, of_values = 0;
          for (int i = 0; i < threads; i++) {
            of_keys += parts[i].d_w_ke[(k * f + x) * D + c];
            of_values += parts[i].d_w_ve[(k * f + x) * D + c];
          }
          t->d_w_ke[(k * d + c) * f + x] = of_keys;
          t->d_w_ve[(k * d + c) * f + x] = of_values;
        }
        if (t->d_w_be) {
          float of_bias = 0;
          for (int i = 0; i < threads; i++) of_bias += parts[i].d_w_be[k * F + x];
          t->d_w_be[k * f + x] = of_bias;
        }
      }
  free(parts), free(ids), free(space);
  return 0;
}

int molattn_forward(const Task *task, int threads) { return in_parts(task, threads, forward_part, 0); }
int molattn_backward(const Task *task, int threads) { return in_parts(task, threads, backward_part, 1); }
