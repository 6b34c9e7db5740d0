/* Attention over dense graphs, forward and backward, one graph at a time in the cache of a core.
 *
 * The equations and symbols are those of molattn.attention.attend with edges: h heads of d channels, n nodes, f edge
 * channels, receiver i, sender j. The receivers of a graph are processed in blocks of L, one for each lane of a vector.
 * Tensors that belong to a receiver (query, edges, weights) are transposed so that the receivers come last; tensors
 * that all receivers share (keys, values, weight matrices) are read in place, one scalar at a time. So no sum crosses
 * lanes, no vector is padded to the number of channels, and a block reads keys and values once. Only the last block of
 * a graph is padded, so graphs of different sizes in a batch do not slow each other down.
 *
 * Nothing is saved for backward: recomputing the attention weights costs no more than writing them to memory and
 * reading them again, and a large graph needs no memory for n x n numbers per head.
 */

#include "elements.h"
#include "threads.h"

enum { MAX_TABLES = 4 }; /* embedding tables; the features of an edge are the sum of one row of each */

/* Graphs in dense tensors of n nodes: molattn.kernels.edge_attention.Graphs. */
typedef struct {
  int64_t count, n;          /* number of graphs; nodes per graph with padding */
  const int64_t *sizes;      /* (count,) nodes without padding; NULL if there is no padding */
  const float *e;            /* (count, n, n, f), or NULL if edges are sums of table rows */
  const uint8_t *allowed;    /* (count, n, n) attention mask, or NULL if every node attends to every node */
  const float *dropout_mask; /* (count, h, n, n) factors of the weights, or NULL */
  float *d_e;                /* (count, n, n, f), or NULL */
  const uint8_t *edge_codes[MAX_TABLES]; /* (count, n, n), the row of each table that an edge adds */
} Graphs;
LAYOUT(Graphs, FIELD(Graphs, count) FIELD(Graphs, n) FIELD(Graphs, sizes) FIELD(Graphs, e) FIELD(Graphs, allowed)
       FIELD(Graphs, dropout_mask) FIELD(Graphs, d_e) FIELD(Graphs, edge_codes));

/* molattn.kernels.edge_attention.AttentionTask */
typedef struct {
  int64_t h, d, f;
  float scale;
  const float *q, *k, *v;        /* (rows, h, d), with `stride` numbers from one row to the next */
  int64_t stride;
  const float *w_ke, *w_ve;      /* (h, d, f) */
  const float *w_be;             /* (h, f), or NULL */
  const Graphs *graphs;
  float *output;                 /* (rows, h, d) */
  const float *dy;               /* (rows, h, d) */
  float *d_q, *d_k, *d_v;        /* (rows, h, d), with `d_stride` numbers from one row to the next */
  int64_t d_stride;
  float *d_w_ke, *d_w_ve;        /* (h, d, f) */
  float *d_w_be;                 /* (h, f), or NULL */
  const Dropout *dropout;        /* of the weights, instead of `dropout_mask`; or NULL */
  int64_t tables;                /* number of tables whose rows the edges are sums of; 0 if the edges are `e` */
  int64_t num_rows[MAX_TABLES];
  const float *rows[MAX_TABLES]; /* (num_rows, f) */
  float *d_rows[MAX_TABLES];     /* (num_rows, f) */
  int64_t accumulate_d_e;        /* whether d_e is added to its previous values */
} AttentionTask;
LAYOUT(AttentionTask, FIELD(AttentionTask, h) FIELD(AttentionTask, d) FIELD(AttentionTask, f)
       FIELD(AttentionTask, scale) FIELD(AttentionTask, q) FIELD(AttentionTask, k) FIELD(AttentionTask, v)
       FIELD(AttentionTask, stride) FIELD(AttentionTask, w_ke) FIELD(AttentionTask, w_ve) FIELD(AttentionTask, w_be)
       FIELD(AttentionTask, graphs) FIELD(AttentionTask, output) FIELD(AttentionTask, dy) FIELD(AttentionTask, d_q)
       FIELD(AttentionTask, d_k) FIELD(AttentionTask, d_v) FIELD(AttentionTask, d_stride) FIELD(AttentionTask, d_w_ke)
       FIELD(AttentionTask, d_w_ve) FIELD(AttentionTask, d_w_be) FIELD(AttentionTask, dropout)
       FIELD(AttentionTask, tables) FIELD(AttentionTask, num_rows) FIELD(AttentionTask, rows)
       FIELD(AttentionTask, d_rows) FIELD(AttentionTask, accumulate_d_e));

/* The scratch memory of a thread. D is d rounded up to whole vectors. */
typedef struct {
  float *d_w_ke, *d_w_ve;      /* (h, f, D): sums over the graphs of the thread */
  float *d_w_be;               /* (h, f, L): the same, separately for the receivers of each lane */
  float *d_rows[MAX_TABLES];   /* (num_rows, f): sums over the graphs of the thread */
  float *w_keT, *w_veT;        /* (h, f, d) */
  float *q, *edge_queries;     /* (h, d, L), (h, f, L): what keys and edge features are multiplied by in the logits */
  float *e, *w, *inverse_sum;  /* (n, f, L), (h, n, L), (h, L) */
  float *dropout_factors, *allowed; /* (n, L) each, the second of integers */
  float *o, *edge_sums;        /* (h, d, L), (h, f, L) */
  float *q_rows, *dy_rows;     /* (L, h d and one vector more) */
  float *edge_rows;            /* (L, senders_per_step(f), f) */
  float *dy, *d_edge_sums, *d_w; /* (h, d, L), (h, f, L), (h, n, L) */
  float *d_q, *d_edge_queries; /* (h, d, L), (h, f, L) */
  float *d_k, *d_v;            /* (h, n, D) */
} Scratch;

INLINE int64_t num_nodes(const Graphs *graphs, int64_t g) { return graphs->sizes ? graphs->sizes[g] : graphs->n; }

/* The receivers i, i + 1, ... of graph g, which has n nodes from row `row` of the tensors on. */
typedef struct {
  const Graphs *graphs;
  int64_t g, n, row, i, receivers;
} ReceiverBlock;

/* Transposes up to L rows of `count` numbers to (count, L); zeros for the missing rows. */
NOINLINE void transpose_rows(float *to, const float *from, int64_t stride, int64_t rows, int64_t count) {
  if (count < L) {
    memset(to, 0, FLOAT_BYTES(count * L));
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < count; c++) to[c * L + r] = from[r * stride + c];
    return;
  }
  for (int64_t c = 0; c < count; c += L) {
    const int64_t at = c + L <= count ? c : count - L; /* the last vector overlaps the one before */
    V x[L];
    for (int64_t r = 0; r < L; r++) x[r] = r < rows ? load(from + r * stride + at) : (V){};
    transpose_vectors(x);
    for (int64_t r = 0; r < L; r++) store(to + (at + r) * L, x[r]);
  }
}

/* The inverse of `transpose_rows`. */
NOINLINE void transpose_rows_back(float *to, int64_t stride, const float *from, int64_t rows, int64_t count) {
  if (count < L) {
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < count; c++) to[r * stride + c] = from[c * L + r];
    return;
  }
  for (int64_t c = 0; c < count; c += L) {
    const int64_t at = c + L <= count ? c : count - L;
    V x[L];
    for (int64_t r = 0; r < L; r++) x[r] = load(from + (at + r) * L);
    transpose_vectors(x);
    for (int64_t r = 0; r < rows; r++) store(to + r * stride + at, x[r]);
  }
}

/* A loop over at_ = 0, ..., n - 1: W = `width` iterations in each step, which the compiler unrolls, and W = 1 for the
 * remaining iterations. */
#define BY(width, n, body)                                                       \
  do {                                                                           \
    const int n_ = (int)(n);                                                     \
    int at_ = 0;                                                                 \
    for (; at_ + (width) <= n_; at_ += (width)) { enum { W = (width) }; body }   \
    for (; at_ < n_; at_++) { enum { W = 1 }; body }                             \
  } while (0)

/* In these functions, letters are vectors of one number for each receiver, unless called scalars. */

/* y_j = sum_x a_x b_jx + sum_c u_c e_jc with scalars b_jx, for n senders. */
NOINLINE void dot_products(float *y, int64_t n, const float *a, const float *b, int64_t stride, int64_t d,
                           const float *u, const float *e, int64_t f) {
  BY(4, n, {
    V s[W] = {};
    for (int64_t x = 0; x < d; x++) {
      const V ax = load(a + x * L);
      for (int j = 0; j < W; j++) s[j] += ax * b[(at_ + j) * stride + x];
    }
    for (int64_t c = 0; c < f; c++) {
      const V uc = load(u + c * L);
      for (int j = 0; j < W; j++) s[j] += uc * load(e + ((at_ + j) * f + c) * L);
    }
    for (int j = 0; j < W; j++) store(y + (at_ + j) * L, s[j]);
  });
}

/* y_x += sum_j s_j b_jx with scalars b_jx, for d channels. */
NOINLINE void weighted_sum_scalars(float *y, int64_t d, const float *s, int64_t n, const float *b, int64_t stride) {
  BY(8, d, {
    V sum[W];
    for (int x = 0; x < W; x++) sum[x] = load(y + (at_ + x) * L);
    for (int64_t j = 0; j < n; j++) {
      const V sj = load(s + j * L);
      for (int x = 0; x < W; x++) sum[x] += sj * b[j * stride + at_ + x];
    }
    for (int x = 0; x < W; x++) store(y + (at_ + x) * L, sum[x]);
  });
}

/* y_c += sum_j s_j e_jc, for f channels. */
NOINLINE void weighted_sum(float *y, int64_t f, const float *s, int64_t s_stride, int64_t n, const float *e,
                           int64_t stride) {
  BY(8, f, {
    V sum[W];
    for (int c = 0; c < W; c++) sum[c] = load(y + (at_ + c) * L);
    for (int64_t j = 0; j < n; j++) {
      const V sj = load(s + j * s_stride);
      for (int c = 0; c < W; c++) sum[c] += sj * load(e + j * stride + (at_ + c) * L);
    }
    for (int c = 0; c < W; c++) store(y + (at_ + c) * L, sum[c]);
  });
}

/* `sum_receivers` for one vector of channels. */
INLINE void sum_vectors(float *y, int64_t n, const float *s, const float *rows, int64_t stride,
                        int64_t receivers, int64_t D) {
  BY(8, n, {
    V sum[W];
    for (int j = 0; j < W; j++) sum[j] = load(y + (at_ + j) * D);
    for (int64_t r = 0; r < receivers; r++) {
      const V x = load(rows + r * stride);
      for (int j = 0; j < W; j++) sum[j] += x * s[(at_ + j) * L + r];
    }
    for (int j = 0; j < W; j++) store(y + (at_ + j) * D, sum[j]);
  });
}

/* y_j += sum_r s_jr x_r over receivers r with rows x_r of D channels; y is (n, D). */
NOINLINE void sum_receivers(float *y, int64_t n, const float *s, const float *rows, int64_t stride, int64_t receivers,
                         int64_t D) {
  if (D == L) sum_vectors(y, n, s, rows, stride, receivers, L);
  else for (int64_t c = 0; c < D; c += L) sum_vectors(y + c, n, s, rows + c, stride, receivers, D);
}

/* The number of senders whose edges fit into the L1 cache. */
INLINE int64_t senders_per_step(int64_t f) { return f < 64 ? 8 * (64 / (f < 8 ? 8 : f)) : 8; }

/* Loads the features of the edges from `count` senders j, j + 1, ... to the receivers of a block, as (count, f, L). */
static void load_edges(const AttentionTask *t, const ReceiverBlock *b, const Scratch *s, int64_t j, int64_t count) {
  const int64_t f = t->f, n = b->graphs->n, first = (b->g * n + b->i) * n + j;
  float *to = s->e + j * f * L;
  if (!t->tables) {
    transpose_rows(to, b->graphs->e + first * f, n * f, b->receivers, count * f);
    return;
  }
  for (int64_t c = 0; c < count; c++) {
    V x[L] = {};
    for (int64_t r = 0; r < b->receivers; r++)
      for (int64_t table = 0; table < t->tables; table++) {
        const float *row = t->rows[table] + b->graphs->edge_codes[table][first + r * n + c] * f;
        if (f == L) {
          x[r] += load(row);
          continue;
        }
        float *edge = s->edge_rows + (r * count + c) * f;
        for (int64_t k = 0; k < f; k++) edge[k] = (table ? edge[k] : 0) + row[k];
      }
    if (f != L) continue;
    transpose_vectors(x);
    for (int64_t k = 0; k < L; k++) store(to + (c * L + k) * L, x[k]);
  }
  if (f != L) transpose_rows(to, s->edge_rows, count * f, b->receivers, count * f);
}

/* Stores the gradient of the edges of `load_edges`, (count, f, L), in d_e or adds it to those of the tables. */
static void store_edge_gradients(const AttentionTask *t, const ReceiverBlock *b, const Scratch *s, int64_t j,
                                 int64_t count) {
  const int64_t f = t->f, n = b->graphs->n, first = (b->g * n + b->i) * n + j;
  const float *from = s->e + j * f * L;
  if (!t->tables && !t->accumulate_d_e) {
    transpose_rows_back(b->graphs->d_e + first * f, n * f, from, b->receivers, count * f);
    return;
  }
  transpose_rows_back(s->edge_rows, count * f, from, b->receivers, count * f);
  for (int64_t r = 0; r < b->receivers; r++)
    for (int64_t c = 0; c < count; c++) {
      const float *edge = s->edge_rows + (r * count + c) * f;
      const int64_t at = first + r * n + c;
      for (int64_t k = 0; k < f && !t->tables; k++) b->graphs->d_e[at * f + k] += edge[k];
      for (int64_t table = 0; table < t->tables; table++) {
        float *row = s->d_rows[table] + b->graphs->edge_codes[table][at] * f;
        for (int64_t k = 0; k < f; k++) row[k] += edge[k];
      }
    }
}

/* The attention mask of a block, (n, L): all bits set where attention is allowed, none elsewhere. */
NOINLINE void load_allowed(const ReceiverBlock *b, float *allowed) {
  const uint8_t *rows = b->graphs->allowed + (b->g * b->graphs->n + b->i) * b->graphs->n;
  for (int64_t j = 0; j < b->n; j++) {
    I mask = {};
    for (int64_t r = 0; r < b->receivers; r++) mask[r] = -(int32_t)(rows[r * b->graphs->n + j] != 0);
    ((I *)allowed)[j] = mask;
  }
}

/* The softmax of one head without its normalization: w_j = e^(a_j - max a) in place of a_j; returns 1 / sum_j w_j, or 0
 * without a valid key. */
NOINLINE V softmax_terms(float *w, int64_t n, const float *allowed) {
  const V zero = {};
  V maximum = zero + LOWEST, total = {};
  for (int64_t j = 0; j < n; j++) {
    V x = load(w + j * L);
    if (allowed) x = blend(*(const I *)(allowed + j * L), x, zero + LOWEST), store(w + j * L, x);
    maximum = blend(x > maximum, x, maximum);
  }
  for (int64_t j = 0; j < n; j++) {
    V x = exponential(load(w + j * L) - maximum);
    if (allowed) x = blend(*(const I *)(allowed + j * L), x, zero);
    store(w + j * L, x);
    total += x;
  }
  return blend(total == 0, zero, 1.0f / total);
}

/* Computes s->w, the attention weights of a block before dropout and without the factor s->inverse_sum; for backward
 * also s->d_w = dL/dw. */
static void attention_weights(const AttentionTask *t, const ReceiverBlock *b, const Scratch *s, int backward) {
  const int64_t h = t->h, d = t->d, f = t->f, n = b->n, stride = t->stride, step = senders_per_step(f);
  const float *keys = t->k + b->row * stride, *values = t->v + b->row * stride;
  const float *allowed = b->graphs->allowed ? s->allowed : NULL;
  transpose_rows(s->q, t->q + (b->row + b->i) * stride, stride, b->receivers, h * d);
  for (int64_t c = 0; c < h * d; c++) store(s->q + c * L, load(s->q + c * L) * t->scale);
  for (int64_t c = 0; c < h * f; c++) store(s->edge_queries + c * L, (V){} + (t->w_be ? t->w_be[c] : 0));
  for (int64_t k = 0; k < h; k++)
    weighted_sum_scalars(s->edge_queries + k * f * L, f, s->q + k * d * L, d, t->w_ke + k * d * f, f);
  for (int64_t j = 0; j < n; j += step) {
    const int64_t count = j + step < n ? step : n - j;
    const float *here = s->e + j * f * L;
    load_edges(t, b, s, j, count);
    for (int64_t k = 0; k < h; k++)
      dot_products(s->w + (k * n + j) * L, count, s->q + k * d * L, keys + j * stride + k * d, stride, d,
                   s->edge_queries + k * f * L, here, f);
    if (backward)
      for (int64_t k = 0; k < h; k++)
        dot_products(s->d_w + (k * n + j) * L, count, s->dy + k * d * L, values + j * stride + k * d, stride, d,
                     s->d_edge_sums + k * f * L, here, f);
  }
  if (allowed) load_allowed(b, s->allowed);
  for (int64_t k = 0; k < h; k++) store(s->inverse_sum + k * L, softmax_terms(s->w + k * n * L, n, allowed));
}

/* Writes the dropout factors of the weights of one head to s->dropout_factors; returns 0 if there is no dropout. */
NOINLINE int load_dropout_factors(const AttentionTask *t, const ReceiverBlock *b, const Scratch *s, int64_t k) {
  const int64_t n = b->graphs->n, first = ((b->g * t->h + k) * n + b->i) * n;
  if (b->graphs->dropout_mask)
    transpose_rows(s->dropout_factors, b->graphs->dropout_mask + first, n, b->receivers, b->n);
  else if (t->dropout)
    for (int64_t j = 0; j < b->n; j++)
      store(s->dropout_factors + j * L, dropout_factor(t->dropout, lanes() * (uint32_t)n + (uint32_t)(first + j)));
  else return 0;
  return 1;
}

static void forward_block(const AttentionTask *t, const ReceiverBlock *b, const Scratch *s) {
  const int64_t h = t->h, d = t->d, f = t->f, n = b->n, stride = t->stride, step = senders_per_step(f);
  const float *values = t->v + b->row * stride;
  attention_weights(t, b, s, 0);
  for (int64_t k = 0; k < h && load_dropout_factors(t, b, s, k); k++) {
    float *w = s->w + k * n * L;
    for (int64_t j = 0; j < n; j++) store(w + j * L, load(w + j * L) * load(s->dropout_factors + j * L));
  }
  memset(s->o, 0, FLOAT_BYTES(h * d * L));
  memset(s->edge_sums, 0, FLOAT_BYTES(h * f * L));
  for (int64_t j = 0; j < n; j += step) {
    const int64_t count = j + step < n ? step : n - j;
    for (int64_t k = 0; k < h; k++) {
      const float *w = s->w + (k * n + j) * L;
      weighted_sum(s->edge_sums + k * f * L, f, w, L, count, s->e + j * f * L, f * L);
      weighted_sum_scalars(s->o + k * d * L, d, w, count, values + j * stride + k * d, stride);
    }
  }
  for (int64_t k = 0; k < h; k++) {
    float *o = s->o + k * d * L;
    weighted_sum_scalars(o, d, s->edge_sums + k * f * L, f, s->w_veT + k * f * d, d);
    for (int64_t c = 0; c < d; c++) store(o + c * L, load(o + c * L) * load(s->inverse_sum + k * L));
  }
  transpose_rows_back(t->output + (b->row + b->i) * h * d, h * d, s->o, b->receivers, h * d);
}

static void backward_block(const AttentionTask *t, const ReceiverBlock *b, const Scratch *s) {
  const int64_t h = t->h, d = t->d, f = t->f, n = b->n, D = round_up(d, L), wide = round_up(h * d, L) + L;
  const int64_t stride = t->stride, step = senders_per_step(f);
  const float *queries = t->q + b->row * stride, *keys = t->k + b->row * stride, *dy = t->dy + (b->row + b->i) * h * d;
  transpose_rows(s->dy, dy, h * d, b->receivers, h * d);
  memset(s->d_edge_sums, 0, FLOAT_BYTES(h * f * L));
  for (int64_t k = 0; k < h; k++)
    weighted_sum_scalars(s->d_edge_sums + k * f * L, f, s->dy + k * d * L, d, t->w_ve + k * d * f, f);
  attention_weights(t, b, s, 1);
  /* dL/da_ij = w_ij (dL/dw_ij - sum_j w_ij dL/dw_ij) */
  for (int64_t k = 0; k < h; k++) {
    float *w = s->w + k * n * L, *d_w = s->d_w + k * n * L;
    const V inverse_sum = load(s->inverse_sum + k * L);
    V weighted = {};
    const int has_dropout = load_dropout_factors(t, b, s, k);
    for (int64_t j = 0; j < n; j++) {
      if (has_dropout) store(d_w + j * L, load(d_w + j * L) * load(s->dropout_factors + j * L));
      weighted += load(w + j * L) * load(d_w + j * L);
    }
    weighted *= inverse_sum;
    for (int64_t j = 0; j < n; j++) {
      const V x = load(w + j * L) * inverse_sum;
      store(d_w + j * L, x * (load(d_w + j * L) - weighted));
      store(w + j * L, x);
      if (has_dropout) store(w + j * L, x * load(s->dropout_factors + j * L));
    }
  }
  for (int64_t r = 0; r < b->receivers; r++) {
    memcpy(s->q_rows + r * wide, queries + (b->i + r) * stride, FLOAT_BYTES(h * d));
    memcpy(s->dy_rows + r * wide, dy + r * h * d, FLOAT_BYTES(h * d));
  }
  for (int64_t c = 0; c < L * wide; c += L) store(s->q_rows + c, load(s->q_rows + c) * t->scale);
  memset(s->d_q, 0, FLOAT_BYTES(h * d * L));
  memset(s->d_edge_queries, 0, FLOAT_BYTES(h * f * L));
  memset(s->edge_sums, 0, FLOAT_BYTES(h * f * L));
  for (int64_t j = 0; j < n; j += step) {
    const int64_t count = j + step < n ? step : n - j;
    float *e = s->e + j * f * L;
    for (int64_t k = 0; k < h; k++) {
      const float *w = s->w + (k * n + j) * L, *d_w = s->d_w + (k * n + j) * L;
      weighted_sum(s->d_edge_queries + k * f * L, f, d_w, L, count, e, f * L);
      weighted_sum(s->edge_sums + k * f * L, f, w, L, count, e, f * L);
      weighted_sum_scalars(s->d_q + k * d * L, d, d_w, count, keys + j * stride + k * d, stride);
      sum_receivers(s->d_k + (k * n + j) * D, count, d_w, s->q_rows + k * d, wide, b->receivers, D);
      sum_receivers(s->d_v + (k * n + j) * D, count, w, s->dy_rows + k * d, wide, b->receivers, D);
    }
    if (b->graphs->d_e || t->tables) {
      memset(e, 0, FLOAT_BYTES(count * f * L));
      for (int64_t x = 0; x < count; x++) {
        weighted_sum(e + x * f * L, f, s->d_w + (j + x) * L, n * L, h, s->edge_queries, f * L);
        weighted_sum(e + x * f * L, f, s->w + (j + x) * L, n * L, h, s->d_edge_sums, f * L);
      }
      store_edge_gradients(t, b, s, j, count);
    }
  }
  for (int64_t k = 0; k < h; k++) {
    float *d_q = s->d_q + k * d * L, *d_edge_queries = s->d_edge_queries + k * f * L;
    weighted_sum_scalars(d_q, d, d_edge_queries, f, s->w_keT + k * f * d, d);
    for (int64_t c = 0; c < d; c++) store(d_q + c * L, load(d_q + c * L) * t->scale);
    sum_receivers(s->d_w_ke + k * f * D, f, d_edge_queries, s->q_rows + k * d, wide, b->receivers, D);
    sum_receivers(s->d_w_ve + k * f * D, f, s->edge_sums + k * f * L, s->dy_rows + k * d, wide, b->receivers, D);
  }
  if (t->d_w_be)
    for (int64_t c = 0; c < h * f; c++)
      store(s->d_w_be + c * L, load(s->d_w_be + c * L) + load(s->d_edge_queries + c * L));
  transpose_rows_back(t->d_q + (b->row + b->i) * t->d_stride, t->d_stride, s->d_q, b->receivers, h * d);
}

/* The attention output of all nodes of a graph. */
static void attend_graph(const AttentionTask *t, ReceiverBlock *b, const Scratch *s) {
  for (b->i = 0; b->i < b->n; b->i += L) {
    b->receivers = b->i + L < b->n ? L : b->n - b->i;
    forward_block(t, b, s);
  }
}

/* The gradients of queries, keys, values and edges of a graph; those of the weight matrices are accumulated. */
static void attend_graph_backward(const AttentionTask *t, ReceiverBlock *b, const Scratch *s) {
  const int64_t h = t->h, d = t->d, n = b->n, D = round_up(d, L);
  memset(s->d_k, 0, FLOAT_BYTES(h * n * D));
  memset(s->d_v, 0, FLOAT_BYTES(h * n * D));
  for (b->i = 0; b->i < n; b->i += L) {
    b->receivers = b->i + L < n ? L : n - b->i;
    backward_block(t, b, s);
  }
  for (int64_t j = 0; j < n; j++)
    for (int64_t k = 0; k < h; k++) {
      const int64_t at = (b->row + j) * t->d_stride + k * d;
      memcpy(t->d_k + at, s->d_k + (k * n + j) * D, FLOAT_BYTES(d));
      memcpy(t->d_v + at, s->d_v + (k * n + j) * D, FLOAT_BYTES(d));
    }
}

/* Zeroes the gradients of edges from or to the padding of a graph. */
static void zero_padding_edge_gradients(const AttentionTask *t, const ReceiverBlock *b) {
  const int64_t n = b->n, padded_n = b->graphs->n, f = t->f;
  for (int64_t i = 0; i < padded_n && b->graphs->d_e && n < padded_n; i++) {
    const int64_t from = i < n ? n : 0;
    memset(b->graphs->d_e + ((b->g * padded_n + i) * padded_n + from) * f, 0, FLOAT_BYTES((padded_n - from) * f));
  }
}

static void forward_graph(const AttentionTask *t, ReceiverBlock *b, const Scratch *s) {
  const int64_t h = t->h, d = t->d;
  attend_graph(t, b, s);
  if (b->n < b->graphs->n) /* output may be NULL if graphs have no nodes */
    memset(t->output + (b->row + b->n) * h * d, 0, FLOAT_BYTES((b->graphs->n - b->n) * h * d));
}

static void backward_graph(const AttentionTask *t, ReceiverBlock *b, const Scratch *s) {
  attend_graph_backward(t, b, s);
  for (int64_t i = b->n; i < b->graphs->n; i++) {
    const int64_t at = (b->row + i) * t->d_stride;
    memset(t->d_q + at, 0, FLOAT_BYTES(t->h * t->d));
    memset(t->d_k + at, 0, FLOAT_BYTES(t->h * t->d));
    memset(t->d_v + at, 0, FLOAT_BYTES(t->h * t->d));
  }
  zero_padding_edge_gradients(t, b);
}

/* The address of a pointer to a buffer, and the number of floats of the buffer. */
typedef struct {
  float **to;
  int64_t count;
} Buffer;

/* Places the buffers one after another in the memory from `at` on, or only counts if `at` is NULL; returns the number
 * of floats. */
static int64_t place_buffers(float *at, const Buffer *buffers, size_t count) {
  int64_t total = 0;
  for (size_t i = 0; i < count; i++) {
    if (at) *buffers[i].to = at + total;
    total += round_up(buffers[i].count, 16);
  }
  return total;
}
#define PLACE_BUFFERS(at, buffers) place_buffers(at, buffers, sizeof buffers / sizeof *buffers)

/* Places the scratch memory that belongs to the weight matrices. */
static int64_t place_weight_buffers(Scratch *s, float *at, const AttentionTask *t) {
  const int64_t h = t->h, d = t->d, f = t->f, D = round_up(d, L);
  const Buffer buffers[] = {
      {&s->d_w_ke, h * f * D},
      {&s->d_w_ve, h * f * D},
      {&s->d_w_be, h * f * L},
      {&s->w_keT, h * f * d}, /* `init_scratch` zeroes the buffers before this one */
      {&s->w_veT, h * f * d},
  };
  return PLACE_BUFFERS(at, buffers);
}

/* Places the rest of the scratch memory, for graphs of up to n nodes. */
static int64_t place_graph_buffers(Scratch *s, float *at, const AttentionTask *t, int64_t n) {
  const int64_t h = t->h, d = t->d, f = t->f, D = round_up(d, L), wide = round_up(h * d, L) + L;
  const Buffer buffers[] = {
      {&s->q_rows, L * wide},
      {&s->dy_rows, L * wide},
      {&s->q, h * d * L}, /* `init_scratch` zeroes the buffers before this one */
      {&s->edge_queries, h * f * L},
      {&s->edge_rows, L * senders_per_step(f) * f},
      {&s->e, n * f * L},
      {&s->w, h * n * L},
      {&s->inverse_sum, h * L},
      {&s->dropout_factors, n * L},
      {&s->allowed, n * L},
      {&s->o, h * d * L},
      {&s->edge_sums, h * f * L},
      {&s->dy, h * d * L},
      {&s->d_edge_sums, h * f * L},
      {&s->d_w, h * n * L},
      {&s->d_q, h * d * L},
      {&s->d_edge_queries, h * f * L},
      {&s->d_k, h * n * D},
      {&s->d_v, h * n * D},
  };
  return PLACE_BUFFERS(at, buffers);
}

static int64_t place_scratch(Scratch *s, float *at, const AttentionTask *t, int64_t n) {
  const int64_t used = place_weight_buffers(s, at, t);
  return used + place_graph_buffers(s, at ? at + used : NULL, t, n);
}

/* The work of a thread. */
typedef struct {
  const AttentionTask *task;
  int64_t from, to; /* graphs */
  Scratch scratch;
} Job;

/* Transposes the weight matrices for a thread, and zeroes its sums. */
static void init_scratch(const AttentionTask *t, const Scratch *s) {
  const int64_t d = t->d, f = t->f;
  memset(s->d_w_ke, 0, FLOAT_BYTES(s->w_keT - s->d_w_ke));
  memset(s->q_rows, 0, FLOAT_BYTES(s->q - s->q_rows));
  for (int64_t k = 0; k < t->h; k++)
    for (int64_t c = 0; c < d; c++)
      for (int64_t x = 0; x < f; x++) {
        s->w_keT[(k * f + x) * d + c] = t->w_ke[(k * d + c) * f + x];
        s->w_veT[(k * f + x) * d + c] = t->w_ve[(k * d + c) * f + x];
      }
}

/* Computes the gradients of the weight matrices: the sums over threads. */
static void reduce_weight_gradients(const AttentionTask *t, const Scratch **scratches, int threads) {
  const int64_t h = t->h, d = t->d, f = t->f, D = round_up(d, L);
  for (int64_t k = 0; k < h; k++)
    for (int64_t x = 0; x < f; x++) {
      for (int64_t c = 0; c < d; c++) {
        float d_key = 0, d_value = 0;
        for (int i = 0; i < threads; i++) {
          d_key += scratches[i]->d_w_ke[(k * f + x) * D + c];
          d_value += scratches[i]->d_w_ve[(k * f + x) * D + c];
        }
        t->d_w_ke[(k * d + c) * f + x] = d_key;
        t->d_w_ve[(k * d + c) * f + x] = d_value;
      }
      if (t->d_w_be) {
        float d_bias = 0;
        for (int i = 0; i < threads; i++)
          for (int64_t r = 0; r < L; r++) d_bias += scratches[i]->d_w_be[(k * f + x) * L + r];
        t->d_w_be[k * f + x] = d_bias;
      }
    }
}

static void run_job(Job *job, int backward) {
  const AttentionTask *t = job->task;
  const Scratch *s = &job->scratch;
  const Graphs *graphs = t->graphs;
  init_scratch(t, s);
  for (int64_t g = job->from; g < job->to; g++) {
    ReceiverBlock block = {graphs, g, num_nodes(graphs, g), g * graphs->n, 0, 0};
    if (backward) backward_graph(t, &block, s);
    else forward_graph(t, &block, s);
  }
}

static void *forward_job(void *job) { run_job(job, 0); return NULL; }
static void *backward_job(void *job) { run_job(job, 1); return NULL; }

/* Divides the graphs into consecutive groups of about equal work, one for each thread. The division depends only on the
 * sizes and the number of threads, so sums are reproducible. Returns 0, or 1 if out of memory. */
static int run_in_threads(const AttentionTask *t, int threads, void *(*function)(void *), int backward) {
  const int64_t graphs = t->graphs->count;
  int64_t max_n = 0;
  double work = 0, done = 0;
  for (int64_t g = 0; g < graphs; g++) {
    const int64_t n = num_nodes(t->graphs, g);
    if (n > max_n) max_n = n;
    work += (double)n * (n + 8);
  }
  if (threads < 1 || work * t->h < 32768) threads = 1; /* starting a thread costs as much as a few graphs */
  if (threads > graphs) threads = graphs ? (int)graphs : 1;
  Scratch unplaced;
  const size_t each = round_up(FLOAT_BYTES(place_scratch(&unplaced, NULL, t, max_n)), 64);
  Job *jobs = calloc(threads, sizeof(Job));
  const Scratch **scratches = calloc(threads, sizeof(Scratch *));
  char *memory = aligned_alloc(64, each * threads + 64);
  if (!jobs || !scratches || !memory) {
    free(jobs), free(scratches), free(memory);
    return 1;
  }
  int job = 0;
  for (int64_t g = 0; g < graphs; g++) {
    const int64_t n = num_nodes(t->graphs, g);
    for (; job + 1 < threads && done >= work * (job + 1) / threads; job++)
      jobs[job].to = jobs[job + 1].from = g;
    done += (double)n * (n + 8);
  }
  for (; job + 1 < threads; job++) jobs[job].to = jobs[job + 1].from = graphs;
  jobs[job].to = graphs;
  for (int i = 0; i < threads; i++) {
    Scratch *s = &jobs[i].scratch;
    jobs[i].task = t;
    place_scratch(s, (float *)(memory + each * i), t, max_n);
    scratches[i] = s;
  }
  run_jobs(function, jobs, sizeof(Job), threads);
  if (backward) reduce_weight_gradients(t, scratches, threads);
  free(jobs), free(scratches), free(memory);
  return 0;
}

int molattn_forward(const AttentionTask *task, int threads) { return run_in_threads(task, threads, forward_job, 0); }
int molattn_backward(const AttentionTask *task, int threads) { return run_in_threads(task, threads, backward_job, 1); }
