/* Attention over dense graphs, forward and backward, a graph at a time in a core's own cache.
 *
 * The equations are those of molattn.attention.attend with edges, in its letters: h heads of d channels, n nodes, f channels of the
 * edges, receiver i, sender j. The receivers of a graph come in blocks of as many as a vector has lanes, L, one in each
 * lane: what a receiver has of its own (query, edges, weights) is turned so that receivers stand last; what all of them
 * share (keys, values, matrices) is read number by number, where it lies. So no sum crosses the lanes, no vector has
 * room for channels that are not there, and keys and values are passed over once for a block. Nothing is padded but the
 * last block of a graph: a batch of mixed sizes costs what its graphs cost.
 *
 * Nothing is kept from forward to backward: working the weights out again costs no more than writing them to memory and
 * reading them back, and a large graph needs no n x n numbers for each head.
 */

#include <pthread.h>

#include "elements.h"

enum { TABLES = 4 }; /* at most, of rows that edges are sums of */

/* Graphs that stand in dense tensors of n nodes: molattn.kernels.edge_attention.Graphs. */
typedef struct {
  int64_t count, n;         /* how many graphs; nodes with padding */
  const int64_t *sizes;     /* (count,) nodes without padding; NULL where there is none */
  const float *e;           /* (count, n, n, f), or NULL where edges are sums of rows */
  const uint8_t *allowed;   /* (count, n, n), or NULL where every node attends to every other */
  const float *kept;        /* (count, h, n, n), what weights are multiplied by, or NULL */
  float *d_e;               /* (count, n, n, f), or NULL */
  const uint8_t *edge_codes[TABLES]; /* (count, n, n), which row of each table an edge is the sum of */
} Graphs;
LAYOUT(Graphs, FIELD(Graphs, count) FIELD(Graphs, n) FIELD(Graphs, sizes) FIELD(Graphs, e) FIELD(Graphs, allowed)
       FIELD(Graphs, kept) FIELD(Graphs, d_e) FIELD(Graphs, edge_codes));

/* molattn.kernels.edge_attention.Task */
typedef struct {
  int64_t h, d, f;
  float scale;
  const float *q, *k, *v;        /* (rows, h, d), a row `stride` numbers behind the one before */
  int64_t stride;
  const float *w_ke, *w_ve;      /* (h, d, f) */
  const float *w_be;             /* (h, f), or NULL */
  const Graphs *graphs;
  float *output;                 /* (rows, h, d) */
  const float *dy;               /* (rows, h, d) */
  float *d_q, *d_k, *d_v;        /* (rows, h, d), a row `d_stride` numbers behind the one before */
  int64_t d_stride;
  float *d_w_ke, *d_w_ve;        /* (h, d, f) */
  float *d_w_be;                 /* (h, f), or NULL */
  const Dropping *dropping;      /* of weights, in place of `kept`; or NULL */
  int64_t tables;                /* of rows that edges are sums of, 0 where they are `e` */
  int64_t num_rows[TABLES];
  const float *rows[TABLES];     /* (num_rows, f) */
  float *d_rows[TABLES];         /* (num_rows, f) */
  int64_t add_edges;             /* d_e is added to what stands there */
} Task;
LAYOUT(Task, FIELD(Task, h) FIELD(Task, d) FIELD(Task, f) FIELD(Task, scale) FIELD(Task, q) FIELD(Task, k)
       FIELD(Task, v) FIELD(Task, stride) FIELD(Task, w_ke) FIELD(Task, w_ve) FIELD(Task, w_be) FIELD(Task, graphs)
       FIELD(Task, output) FIELD(Task, dy) FIELD(Task, d_q) FIELD(Task, d_k) FIELD(Task, d_v) FIELD(Task, d_stride)
       FIELD(Task, d_w_ke) FIELD(Task, d_w_ve) FIELD(Task, d_w_be) FIELD(Task, dropping) FIELD(Task, tables)
       FIELD(Task, num_rows) FIELD(Task, rows) FIELD(Task, d_rows) FIELD(Task, add_edges));

/* What a thread works in. D is d with room for whole vectors. */
typedef struct {
  float *d_w_ke, *d_w_ve;      /* (h, f, D): sums over the graphs of the thread */
  float *d_w_be;               /* (h, f, L): the same, of the receivers in each lane */
  float *d_rows[TABLES];       /* (num_rows, f): sums over the graphs of the thread */
  float *w_keT, *w_veT;        /* (h, f, d) */
  float *q, *asked;            /* (h, d, L), (h, f, L) */
  float *e, *w, *share;        /* (n, f, L), (h, n, L), (h, L) */
  float *kept, *allowed;       /* (n, L) each, the second of integers */
  float *o, *sums;             /* (h, d, L), (h, f, L) */
  float *q_rows, *dy_rows;     /* (L, h d and a vector more) */
  float *edges;                /* (L, in_cache(f), f) */
  float *dy, *d_sums, *d_w;    /* (h, d, L), (h, f, L), (h, n, L) */
  float *d_q, *d_asked;        /* (h, d, L), (h, f, L) */
  float *d_k, *d_v;            /* (h, n, D) */
} Space;

INLINE int64_t nodes_of(const Graphs *in, int64_t g) { return in->sizes ? in->sizes[g] : in->n; }

/* Receivers i, i + 1, ... of a graph of n nodes; its first row. */
typedef struct {
  const Graphs *in;
  int64_t g, n, row, i, receivers;
} Block;

/* Rows of `count` numbers each to (count, L): zeros where there are fewer than L rows. */
APART void turn(float *to, const float *from, int64_t stride, int64_t rows, int64_t count) {
  if (count < L) {
    memset(to, 0, FLOATS(count * L));
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < count; c++) to[c * L + r] = from[r * stride + c];
    return;
  }
  for (int64_t c = 0; c < count; c += L) {
    const int64_t at = c + L <= count ? c : count - L; /* the last columns twice rather than one by one */
    V x[L];
    for (int64_t r = 0; r < L; r++) x[r] = r < rows ? load(from + r * stride + at) : (V){};
    transpose(x);
    for (int64_t r = 0; r < L; r++) store(to + (at + r) * L, x[r]);
  }
}

/* And back. */
APART void turn_back(float *to, int64_t stride, const float *from, int64_t rows, int64_t count) {
  if (count < L) {
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < count; c++) to[r * stride + c] = from[c * L + r];
    return;
  }
  for (int64_t c = 0; c < count; c += L) {
    const int64_t at = c + L <= count ? c : count - L;
    V x[L];
    for (int64_t r = 0; r < L; r++) x[r] = load(from + (at + r) * L);
    transpose(x);
    for (int64_t r = 0; r < rows; r++) store(to + r * stride + at, x[r]);
  }
}

/* A loop by `width` steps at a time, known to the compiler, and the rest one by one. */
#define BY(width, n, body)                                                       \
  do {                                                                           \
    const int n_ = (int)(n);                                                     \
    int at_ = 0;                                                                 \
    for (; at_ + (width) <= n_; at_ += (width)) { enum { W = (width) }; body }   \
    for (; at_ < n_; at_++) { enum { W = 1 }; body }                             \
  } while (0)

/* y_j = sum_x a_x b_jx + sum_c u_c e_jc with numbers b_jx, of n senders. */
APART void products(float *y, int64_t n, const float *a, const float *b, int64_t stride, int64_t d, const float *u,
                     const float *e, int64_t f) {
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

/* y_x += sum_j s_j b_jx with numbers b_jx, of d channels. */
APART void weigh_numbers(float *y, int64_t d, const float *s, int64_t n, const float *b, int64_t stride) {
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

/* y_c += sum_j s_j e_jc, of f channels. */
APART void weigh(float *y, int64_t f, const float *s, int64_t s_stride, int64_t n, const float *e, int64_t stride) {
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

/* A vector of the channels of what follows. */
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

/* y_j += sum_r s_jr x_r over receivers, whose rows x_r are of D channels: (n, D). */
APART void sum_receivers(float *y, int64_t n, const float *s, const float *rows, int64_t stride, int64_t receivers,
                         int64_t D) {
  if (D == L) sum_vectors(y, n, s, rows, stride, receivers, L);
  else for (int64_t c = 0; c < D; c += L) sum_vectors(y + c, n, s, rows + c, stride, receivers, D);
}

/* Senders whose edges fit into the first level of the cache. */
INLINE int64_t in_cache(int64_t f) { return f < 64 ? 8 * (64 / (f < 8 ? 8 : f)) : 8; }

/* Edges to (count, f, L): from the senders j, j + 1, ... to the receivers of a block. */
static void turn_edges(const Task *t, const Block *b, const Space *s, int64_t j, int64_t count) {
  const int64_t f = t->f, n = b->in->n, first = (b->g * n + b->i) * n + j;
  float *to = s->e + j * f * L;
  if (!t->tables) {
    turn(to, b->in->e + first * f, n * f, b->receivers, count * f);
    return;
  }
  for (int64_t c = 0; c < count; c++) {
    V x[L] = {};
    for (int64_t r = 0; r < b->receivers; r++)
      for (int64_t table = 0; table < t->tables; table++) {
        const float *row = t->rows[table] + b->in->edge_codes[table][first + r * n + c] * f;
        if (f == L) {
          x[r] += load(row);
          continue;
        }
        float *edge = s->edges + (r * count + c) * f;
        for (int64_t k = 0; k < f; k++) edge[k] = (table ? edge[k] : 0) + row[k];
      }
    if (f != L) continue;
    transpose(x);
    for (int64_t k = 0; k < L; k++) store(to + (c * L + k) * L, x[k]);
  }
  if (f != L) turn(to, s->edges, count * f, b->receivers, count * f);
}

/* The gradient of edges, (count, f, L), to where it belongs. */
static void give_edges(const Task *t, const Block *b, const Space *s, int64_t j, int64_t count) {
  const int64_t f = t->f, n = b->in->n, first = (b->g * n + b->i) * n + j;
  const float *from = s->e + j * f * L;
  if (!t->tables && !t->add_edges) {
    turn_back(b->in->d_e + first * f, n * f, from, b->receivers, count * f);
    return;
  }
  turn_back(s->edges, count * f, from, b->receivers, count * f);
  for (int64_t r = 0; r < b->receivers; r++)
    for (int64_t c = 0; c < count; c++) {
      const float *edge = s->edges + (r * count + c) * f;
      const int64_t at = first + r * n + c;
      for (int64_t k = 0; k < f && !t->tables; k++) b->in->d_e[at * f + k] += edge[k];
      for (int64_t table = 0; table < t->tables; table++) {
        float *row = s->d_rows[table] + b->in->edge_codes[table][at] * f;
        for (int64_t k = 0; k < f; k++) row[k] += edge[k];
      }
    }
}

/* Who may be heard by whom, as all bits of a number or none. */
APART void who_is_heard(const Block *b, float *allowed) {
  const uint8_t *of = b->in->allowed + (b->g * b->in->n + b->i) * b->in->n;
  for (int64_t j = 0; j < b->n; j++) {
    I heard = {};
    for (int64_t r = 0; r < b->receivers; r++) heard[r] = -(int32_t)(of[r * b->in->n + j] != 0);
    ((I *)allowed)[j] = heard;
  }
}

/* w_j = e^(a_j - max a) and 1 / sum_j w_j, of one head. */
APART V soften(float *w, int64_t n, const float *allowed) {
  const V zero = {};
  V top = zero + LOWEST, total = {};
  for (int64_t j = 0; j < n; j++) {
    V x = load(w + j * L);
    if (allowed) x = pick(*(const I *)(allowed + j * L), x, zero + LOWEST), store(w + j * L, x);
    top = pick(x > top, x, top);
  }
  for (int64_t j = 0; j < n; j++) {
    V x = exponential(load(w + j * L) - top);
    if (allowed) x = pick(*(const I *)(allowed + j * L), x, zero);
    store(w + j * L, x);
    total += x;
  }
  return pick(total == 0, zero, 1.0f / total);
}

/* The weights of a block without dropout, up to the factor s->share; backward, dL/dw too. */
static void weights(const Task *t, const Block *b, const Space *s, int backward) {
  const int64_t h = t->h, d = t->d, f = t->f, n = b->n, stride = t->stride, step = in_cache(f);
  const float *keys = t->k + b->row * stride, *values = t->v + b->row * stride;
  const float *allowed = b->in->allowed ? s->allowed : NULL;
  turn(s->q, t->q + (b->row + b->i) * stride, stride, b->receivers, h * d);
  for (int64_t c = 0; c < h * d; c++) store(s->q + c * L, load(s->q + c * L) * t->scale);
  for (int64_t c = 0; c < h * f; c++) store(s->asked + c * L, (V){} + (t->w_be ? t->w_be[c] : 0));
  for (int64_t k = 0; k < h; k++)
    weigh_numbers(s->asked + k * f * L, f, s->q + k * d * L, d, t->w_ke + k * d * f, f);
  for (int64_t j = 0; j < n; j += step) {
    const int64_t count = j + step < n ? step : n - j;
    const float *here = s->e + j * f * L;
    turn_edges(t, b, s, j, count);
    for (int64_t k = 0; k < h; k++)
      products(s->w + (k * n + j) * L, count, s->q + k * d * L, keys + j * stride + k * d, stride, d,
               s->asked + k * f * L, here, f);
    if (backward)
      for (int64_t k = 0; k < h; k++)
        products(s->d_w + (k * n + j) * L, count, s->dy + k * d * L, values + j * stride + k * d, stride, d,
                 s->d_sums + k * f * L, here, f);
  }
  if (allowed) who_is_heard(b, s->allowed);
  for (int64_t k = 0; k < h; k++) store(s->share + k * L, soften(s->w + k * n * L, n, allowed));
}

/* What the weights of one head are multiplied by, to s->kept; 0 where nothing is. */
APART int keep(const Task *t, const Block *b, const Space *s, int64_t k) {
  const int64_t n = b->in->n, first = ((b->g * t->h + k) * n + b->i) * n;
  if (b->in->kept) turn(s->kept, b->in->kept + first, n, b->receivers, b->n);
  else if (t->dropping)
    for (int64_t j = 0; j < b->n; j++)
      store(s->kept + j * L, kept(t->dropping, lanes() * (uint32_t)n + (uint32_t)(first + j)));
  else return 0;
  return 1;
}

static void forward_block(const Task *t, const Block *b, const Space *s) {
  const int64_t h = t->h, d = t->d, f = t->f, n = b->n, stride = t->stride, step = in_cache(f);
  const float *values = t->v + b->row * stride;
  weights(t, b, s, 0);
  for (int64_t k = 0; k < h && keep(t, b, s, k); k++) {
    float *w = s->w + k * n * L;
    for (int64_t j = 0; j < n; j++) store(w + j * L, load(w + j * L) * load(s->kept + j * L));
  }
  memset(s->o, 0, FLOATS(h * d * L));
  memset(s->sums, 0, FLOATS(h * f * L));
  for (int64_t j = 0; j < n; j += step) {
    const int64_t count = j + step < n ? step : n - j;
    for (int64_t k = 0; k < h; k++) {
      const float *w = s->w + (k * n + j) * L;
      weigh(s->sums + k * f * L, f, w, L, count, s->e + j * f * L, f * L);
      weigh_numbers(s->o + k * d * L, d, w, count, values + j * stride + k * d, stride);
    }
  }
  for (int64_t k = 0; k < h; k++) {
    float *o = s->o + k * d * L;
    weigh_numbers(o, d, s->sums + k * f * L, f, s->w_veT + k * f * d, d);
    for (int64_t c = 0; c < d; c++) store(o + c * L, load(o + c * L) * load(s->share + k * L));
  }
  turn_back(t->output + (b->row + b->i) * h * d, h * d, s->o, b->receivers, h * d);
}

static void backward_block(const Task *t, const Block *b, const Space *s) {
  const int64_t h = t->h, d = t->d, f = t->f, n = b->n, D = up(d, L), wide = up(h * d, L) + L;
  const int64_t stride = t->stride, step = in_cache(f);
  const float *queries = t->q + b->row * stride, *keys = t->k + b->row * stride, *dy = t->dy + (b->row + b->i) * h * d;
  turn(s->dy, dy, h * d, b->receivers, h * d);
  memset(s->d_sums, 0, FLOATS(h * f * L));
  for (int64_t k = 0; k < h; k++)
    weigh_numbers(s->d_sums + k * f * L, f, s->dy + k * d * L, d, t->w_ve + k * d * f, f);
  weights(t, b, s, 1);
  /* dL/da_ij = w_ij (dL/dw_ij - sum_j w_ij dL/dw_ij) */
  for (int64_t k = 0; k < h; k++) {
    float *w = s->w + k * n * L, *d_w = s->d_w + k * n * L;
    const V share = load(s->share + k * L);
    V all = {};
    const int dropped = keep(t, b, s, k);
    for (int64_t j = 0; j < n; j++) {
      if (dropped) store(d_w + j * L, load(d_w + j * L) * load(s->kept + j * L));
      all += load(w + j * L) * load(d_w + j * L);
    }
    all *= share;
    for (int64_t j = 0; j < n; j++) {
      const V x = load(w + j * L) * share;
      store(d_w + j * L, x * (load(d_w + j * L) - all));
      store(w + j * L, x);
      if (dropped) store(w + j * L, x * load(s->kept + j * L));
    }
  }
  for (int64_t r = 0; r < b->receivers; r++) {
    memcpy(s->q_rows + r * wide, queries + (b->i + r) * stride, FLOATS(h * d));
    memcpy(s->dy_rows + r * wide, dy + r * h * d, FLOATS(h * d));
  }
  for (int64_t c = 0; c < L * wide; c += L) store(s->q_rows + c, load(s->q_rows + c) * t->scale);
  memset(s->d_q, 0, FLOATS(h * d * L));
  memset(s->d_asked, 0, FLOATS(h * f * L));
  memset(s->sums, 0, FLOATS(h * f * L));
  for (int64_t j = 0; j < n; j += step) {
    const int64_t count = j + step < n ? step : n - j;
    float *e = s->e + j * f * L;
    for (int64_t k = 0; k < h; k++) {
      const float *w = s->w + (k * n + j) * L, *d_w = s->d_w + (k * n + j) * L;
      weigh(s->d_asked + k * f * L, f, d_w, L, count, e, f * L);
      weigh(s->sums + k * f * L, f, w, L, count, e, f * L);
      weigh_numbers(s->d_q + k * d * L, d, d_w, count, keys + j * stride + k * d, stride);
      sum_receivers(s->d_k + (k * n + j) * D, count, d_w, s->q_rows + k * d, wide, b->receivers, D);
      sum_receivers(s->d_v + (k * n + j) * D, count, w, s->dy_rows + k * d, wide, b->receivers, D);
    }
    if (b->in->d_e || t->tables) {
      memset(e, 0, FLOATS(count * f * L));
      for (int64_t x = 0; x < count; x++) {
        weigh(e + x * f * L, f, s->d_w + (j + x) * L, n * L, h, s->asked, f * L);
        weigh(e + x * f * L, f, s->w + (j + x) * L, n * L, h, s->d_sums, f * L);
      }
      give_edges(t, b, s, j, count);
    }
  }
  for (int64_t k = 0; k < h; k++) {
    float *d_q = s->d_q + k * d * L, *d_asked = s->d_asked + k * f * L;
    weigh_numbers(d_q, d, d_asked, f, s->w_keT + k * f * d, d);
    for (int64_t c = 0; c < d; c++) store(d_q + c * L, load(d_q + c * L) * t->scale);
    sum_receivers(s->d_w_ke + k * f * D, f, d_asked, s->q_rows + k * d, wide, b->receivers, D);
    sum_receivers(s->d_w_ve + k * f * D, f, s->sums + k * f * L, s->dy_rows + k * d, wide, b->receivers, D);
  }
  if (t->d_w_be)
    for (int64_t c = 0; c < h * f; c++) store(s->d_w_be + c * L, load(s->d_w_be + c * L) + load(s->d_asked + c * L));
  turn_back(t->d_q + (b->row + b->i) * t->d_stride, t->d_stride, s->d_q, b->receivers, h * d);
}

/* The output of all receivers of a graph. */
static void attend(const Task *t, Block *b, const Space *s) {
  for (b->i = 0; b->i < b->n; b->i += L) {
    b->receivers = b->i + L < b->n ? L : b->n - b->i;
    forward_block(t, b, s);
  }
}

/* The gradients of the queries, keys and values of a graph, of its edges, and what it adds to those of the matrices. */
static void attend_back(const Task *t, Block *b, const Space *s) {
  const int64_t h = t->h, d = t->d, n = b->n, D = up(d, L);
  memset(s->d_k, 0, FLOATS(h * n * D));
  memset(s->d_v, 0, FLOATS(h * n * D));
  for (b->i = 0; b->i < n; b->i += L) {
    b->receivers = b->i + L < n ? L : n - b->i;
    backward_block(t, b, s);
  }
  for (int64_t j = 0; j < n; j++)
    for (int64_t k = 0; k < h; k++) {
      const int64_t at = (b->row + j) * t->d_stride + k * d;
      memcpy(t->d_k + at, s->d_k + (k * n + j) * D, FLOATS(d));
      memcpy(t->d_v + at, s->d_v + (k * n + j) * D, FLOATS(d));
    }
}

/* Edges from or to the padding of a graph have no gradient. */
static void no_edges_beyond(const Task *t, const Block *b) {
  const int64_t n = b->n, all = b->in->n, f = t->f;
  for (int64_t i = 0; i < all && b->in->d_e && n < all; i++) {
    const int64_t from = i < n ? n : 0;
    memset(b->in->d_e + ((b->g * all + i) * all + from) * f, 0, FLOATS((all - from) * f));
  }
}

static void forward_graph(const Task *t, Block *b, const Space *s) {
  const int64_t h = t->h, d = t->d;
  attend(t, b, s);
  if (b->n < b->in->n) /* of graphs of nothing there is no output */
    memset(t->output + (b->row + b->n) * h * d, 0, FLOATS((b->in->n - b->n) * h * d));
}

static void backward_graph(const Task *t, Block *b, const Space *s) {
  attend_back(t, b, s);
  for (int64_t i = b->n; i < b->in->n; i++) {
    const int64_t at = (b->row + i) * t->d_stride;
    memset(t->d_q + at, 0, FLOATS(t->h * t->d));
    memset(t->d_k + at, 0, FLOATS(t->h * t->d));
    memset(t->d_v + at, 0, FLOATS(t->h * t->d));
  }
  no_edges_beyond(t, b);
}

/* Room for each of these, from `at` on, or NULL to count only: how many floats. */
typedef struct {
  float **to;
  int64_t count;
} Room;

static int64_t make_room(float *at, const Room *rooms, size_t count) {
  int64_t total = 0;
  for (size_t i = 0; i < count; i++) {
    if (at) *rooms[i].to = at + total;
    total += up(rooms[i].count, 16);
  }
  return total;
}
#define MAKE_ROOM(at, rooms) make_room(at, rooms, sizeof rooms / sizeof *rooms)

/* The part of a thread's space that belongs to the matrices. */
static int64_t take_sums(Space *s, float *at, const Task *t) {
  const int64_t h = t->h, d = t->d, f = t->f, D = up(d, L);
  const Room rooms[] = {
      {&s->d_w_ke, h * f * D},
      {&s->d_w_ve, h * f * D},
      {&s->d_w_be, h * f * L},
      {&s->w_keT, h * f * d}, /* those before begin at 0 */
      {&s->w_veT, h * f * d},
  };
  return MAKE_ROOM(at, rooms);
}

/* The rest of it, for graphs of up to n nodes. */
static int64_t take_rest(Space *s, float *at, const Task *t, int64_t n) {
  const int64_t h = t->h, d = t->d, f = t->f, D = up(d, L), wide = up(h * d, L) + L;
  const Room rooms[] = {
      {&s->q_rows, L * wide},
      {&s->dy_rows, L * wide},
      {&s->q, h * d * L}, /* those before begin at 0 */
      {&s->asked, h * f * L},
      {&s->edges, L * in_cache(f) * f},
      {&s->e, n * f * L},
      {&s->w, h * n * L},
      {&s->share, h * L},
      {&s->kept, n * L},
      {&s->allowed, n * L},
      {&s->o, h * d * L},
      {&s->sums, h * f * L},
      {&s->dy, h * d * L},
      {&s->d_sums, h * f * L},
      {&s->d_w, h * n * L},
      {&s->d_q, h * d * L},
      {&s->d_asked, h * f * L},
      {&s->d_k, h * n * D},
      {&s->d_v, h * n * D},
  };
  return MAKE_ROOM(at, rooms);
}

static int64_t take(Space *s, float *at, const Task *t, int64_t n) {
  const int64_t sums = take_sums(s, at, t);
  return sums + take_rest(s, at ? at + sums : NULL, t, n);
}

typedef struct {
  const Task *task;
  int64_t from, to; /* graphs */
  Space space;
} Part;

/* What a thread needs of the matrices; its sums begin at 0. */
static void begin(const Task *t, const Space *s) {
  const int64_t d = t->d, f = t->f;
  memset(s->d_w_ke, 0, FLOATS(s->w_keT - s->d_w_ke));
  memset(s->q_rows, 0, FLOATS(s->q - s->q_rows));
  for (int64_t k = 0; k < t->h; k++)
    for (int64_t c = 0; c < d; c++)
      for (int64_t x = 0; x < f; x++) {
        s->w_keT[(k * f + x) * d + c] = t->w_ke[(k * d + c) * f + x];
        s->w_veT[(k * f + x) * d + c] = t->w_ve[(k * d + c) * f + x];
      }
}

/* The gradients of the matrices, from the sums of each thread. */
static void add_up(const Task *t, const Space **of, int threads) {
  const int64_t h = t->h, d = t->d, f = t->f, D = up(d, L);
  for (int64_t k = 0; k < h; k++)
    for (int64_t x = 0; x < f; x++) {
      for (int64_t c = 0; c < d; c++) {
        float of_keys = 0, of_values = 0;
        for (int i = 0; i < threads; i++) {
          of_keys += of[i]->d_w_ke[(k * f + x) * D + c];
          of_values += of[i]->d_w_ve[(k * f + x) * D + c];
        }
        t->d_w_ke[(k * d + c) * f + x] = of_keys;
        t->d_w_ve[(k * d + c) * f + x] = of_values;
      }
      if (t->d_w_be) {
        float of_bias = 0;
        for (int i = 0; i < threads; i++)
          for (int64_t r = 0; r < L; r++) of_bias += of[i]->d_w_be[(k * f + x) * L + r];
        t->d_w_be[k * f + x] = of_bias;
      }
    }
}

static void run(Part *part, int backward) {
  const Task *t = part->task;
  const Space *s = &part->space;
  const Graphs *in = t->graphs;
  begin(t, s);
  for (int64_t g = part->from; g < part->to; g++) {
    Block block = {in, g, nodes_of(in, g), g * in->n, 0, 0};
    if (backward) backward_graph(t, &block, s);
    else forward_graph(t, &block, s);
  }
}

static void *forward_part(void *part) { run(part, 0); return NULL; }
static void *backward_part(void *part) { run(part, 1); return NULL; }

/* Cut the graphs into runs of about equal work, one for each thread: which graph goes where depends on nothing but the
 * sizes and the number of threads, so that sums come out the same every time. Returns 0, or 1 without memory. */
static int in_parts(const Task *t, int threads, void *(*of_part)(void *), int backward) {
  const int64_t graphs = t->graphs->count;
  int64_t largest_n = 0;
  double work = 0, done = 0;
  for (int64_t g = 0; g < graphs; g++) {
    const int64_t n = nodes_of(t->graphs, g);
    if (n > largest_n) largest_n = n;
    work += (double)n * (n + 8);
  }
  if (threads < 1 || work * t->h < 32768) threads = 1; /* starting a thread costs as much as a few graphs */
  if (threads > graphs) threads = graphs ? (int)graphs : 1;
  Space counted;
  const size_t each = up(FLOATS(take(&counted, NULL, t, largest_n)), 64);
  Part *parts = calloc(threads, sizeof(Part));
  pthread_t *ids = calloc(threads, sizeof(pthread_t));
  const Space **of = calloc(threads, sizeof(Space *));
  char *space = aligned_alloc(64, each * threads + 64);
  if (!parts || !ids || !of || !space) {
    free(parts), free(ids), free(of), free(space);
    return 1;
  }
  int part = 0;
  for (int64_t g = 0; g < graphs; g++) {
    const int64_t n = nodes_of(t->graphs, g);
    for (; part + 1 < threads && done >= work * (part + 1) / threads; part++)
      parts[part].to = parts[part + 1].from = g;
    done += (double)n * (n + 8);
  }
  for (; part + 1 < threads; part++) parts[part].to = parts[part + 1].from = graphs;
  parts[part].to = graphs;
  for (int i = 0; i < threads; i++) {
    Space *s = &parts[i].space;
    parts[i].task = t;
    take(s, (float *)(space + each * i), t, largest_n);
    of[i] = s;
  }
  int started = 1;
  for (; started < threads; started++)
    if (pthread_create(&ids[started], NULL, of_part, &parts[started])) break;
  of_part(&parts[0]);
  for (int i = started; i < threads; i++) of_part(&parts[i]); /* no more threads to be had: their work is done here */
  for (int i = 1; i < started; i++) pthread_join(ids[i], NULL);
  if (backward) add_up(t, of, threads);
  free(parts), free(ids), free(of), free(space);
  return 0;
}

int molattn_forward(const Task *task, int threads) { return in_parts(task, threads, forward_part, 0); }
int molattn_backward(const Task *task, int threads) { return in_parts(task, threads, backward_part, 1); }
