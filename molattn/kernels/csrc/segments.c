/* Attention over edge lists, forward and backward, one receiver at a time.
 *
 * The equations are those of molattn.attention.attend with edges and an EdgeListLayout: h heads of d channels, f edge
 * channels, receiver i, sender j, edge k. Edges come in any order: they are grouped by receiver, and for the gradients
 * of keys and values by sender, so that one thread computes each sum, in a fixed order. No tensor of the size of edges
 * times channels is allocated. */

#include "layout.h"
#include "threads.h"
#include "vectors.h"

/* molattn.kernels.segments.SegmentTask; d is a multiple of 16. */
typedef struct {
  int64_t receivers, senders, edges, h, d, f;
  int64_t q_stride, k_stride;       /* numbers from one row to the next, of q and of k and v */
  float scale;
  const float *q;                   /* (receivers, h, d) */
  const float *k, *v;               /* (senders, h, d) */
  const int64_t *sender, *receiver; /* (edges,) */
  const float *e;                   /* (edges, f), or NULL */
  const float *w_ke, *w_ve;         /* (h, d, f), or NULL */
  const float *w_be;                /* (h, f), or NULL */
  const float *dropout_mask;                /* (edges, h), or NULL */
  float *weights;                   /* (edges, h), before dropout: written by forward, read by backward */
  float *output;                    /* (receivers, h, d) */
  const float *dy;                  /* (receivers, h, d) */
  float *d_logits;                  /* (edges, h), scratch memory */
  float *d_q, *d_k, *d_v;           /* (receivers or senders, h, d) */
  float *d_e;                       /* (edges, f), or NULL */
  float *d_w_ke, *d_w_ve;           /* (h, d, f), or NULL */
  float *d_w_be;                    /* (h, f), or NULL */
} SegmentTask;
LAYOUT(SegmentTask, FIELD(SegmentTask, receivers) FIELD(SegmentTask, senders) FIELD(SegmentTask, edges)
       FIELD(SegmentTask, h) FIELD(SegmentTask, d) FIELD(SegmentTask, f) FIELD(SegmentTask, q_stride)
       FIELD(SegmentTask, k_stride) FIELD(SegmentTask, scale) FIELD(SegmentTask, q) FIELD(SegmentTask, k)
       FIELD(SegmentTask, v) FIELD(SegmentTask, sender) FIELD(SegmentTask, receiver) FIELD(SegmentTask, e)
       FIELD(SegmentTask, w_ke) FIELD(SegmentTask, w_ve) FIELD(SegmentTask, w_be) FIELD(SegmentTask, dropout_mask)
       FIELD(SegmentTask, weights) FIELD(SegmentTask, output) FIELD(SegmentTask, dy) FIELD(SegmentTask, d_logits)
       FIELD(SegmentTask, d_q) FIELD(SegmentTask, d_k) FIELD(SegmentTask, d_v) FIELD(SegmentTask, d_e)
       FIELD(SegmentTask, d_w_ke) FIELD(SegmentTask, d_w_ve) FIELD(SegmentTask, d_w_be));

/* The edges grouped by node, as in compressed sparse rows (CSR): those of node i are order[first[i]] to
 * order[first[i + 1] - 1]. `max_degree` is the most edges of a node. */
typedef struct {
  int64_t *first, *order, max_degree;
} EdgeLists;

/* The scratch memory of a thread. F is f rounded up to whole vectors, or 0 without edge features. */
typedef struct {
  float *e;                     /* (max_degree, F), zero beyond f */
  float *w, *d_w;               /* (h, max_degree), rounded up to whole vectors */
  float *q;                     /* (h, d), times the scale */
  float *edge_queries, *d_edge_queries; /* (h, F): what edge features are multiplied by in the logits */
  float *edge_sums, *d_edge_sums; /* (h, F) */
  float *d_w_ke, *d_w_ve;       /* (h, f, d): sums over the receivers of the thread */
  float *d_w_be;                /* (h, F) */
} Scratch;

/* The work of a thread. */
typedef struct Job {
  const SegmentTask *t;
  const EdgeLists *lists;
  const float *w_keT, *w_veT; /* (h, f, d), or NULL */
  void (*function)(struct Job *);
  int64_t from, to; /* nodes */
  const float **rows, **head_rows; /* (max_degree,) pointers to the rows of the neighbours, and to one head of them */
  Scratch scratch;
} Job;

/* Groups the edges by node. Returns 0, 1 if out of memory, or 2 if a node is out of range. */
static int group_edges(EdgeLists *lists, const int64_t *node, int64_t edges, int64_t nodes) {
  int64_t *next = malloc(((size_t)nodes + 1) * sizeof(int64_t));
  lists->first = calloc((size_t)nodes + 1, sizeof(int64_t));
  lists->order = malloc(((size_t)edges + 1) * sizeof(int64_t));
  int failed = !next || !lists->first || !lists->order;
  for (int64_t k = 0; k < edges && !failed; k++)
    if (node[k] < 0 || node[k] >= nodes) failed = 2;
    else lists->first[node[k] + 1]++;
  lists->max_degree = 0;
  for (int64_t i = 0; i < nodes && !failed; i++) {
    if (lists->first[i + 1] > lists->max_degree) lists->max_degree = lists->first[i + 1];
    lists->first[i + 1] += next[i] = lists->first[i];
  }
  for (int64_t k = 0; k < edges && !failed; k++) lists->order[next[node[k]]++] = k;
  free(next);
  return failed;
}

/* A vector of the sums over the lanes of each of L vectors. */
INLINE V lane_sums(V x[L]) {
  transpose_vectors(x);
  for (int width = L / 2; width; width /= 2)
    for (int i = 0; i < width; i++) x[i] += x[i + width];
  return x[0];
}

/* y_j = a . b_j + u . e_j for n rows b_j of d channels and e_j of F. */
INLINE void dot_products_inline(float *y, int64_t n, const float *a, const float *const *b, int64_t d, const float *u,
                                const float *e, int64_t F) {
  for (int64_t j = 0; j < n; j += L) {
    V x[L];
    for (int i = 0; i < L; i++) {
      const int64_t at = j + i < n ? j + i : n - 1; /* repeats the last row; the results of the repeats are not used */
      V sum = {};
      for (int64_t c = 0; c < d; c += L) sum += load(a + c) * load(b[at] + c);
      for (int64_t c = 0; c < F; c += L) sum += load(u + c) * load(e + at * F + c);
      x[i] = sum;
    }
    store(y + j, lane_sums(x));
  }
}

/* The same, specialized for rows of one vector, which is faster. */
static void dot_products(float *y, int64_t n, const float *a, const float *const *b, int64_t d, const float *u,
                         const float *e, int64_t F) {
  if (d == L && F == L) dot_products_inline(y, n, a, b, L, u, e, L);
  else if (d == L && !F) dot_products_inline(y, n, a, b, L, u, e, 0);
  else dot_products_inline(y, n, a, b, d, u, e, F);
}

/* y += sum_j x_j b_j for n rows b_j of d channels. */
INLINE void weighted_sum(float *y, int64_t n, const float *x, const float *const *b, int64_t d) {
  for (int64_t c = 0; c < d; c += L) {
    V sum = load(y + c), other = {};
    int64_t j = 0;
    for (; j + 2 <= n; j += 2) sum += x[j] * load(b[j] + c), other += x[j + 1] * load(b[j + 1] + c);
    if (j < n) sum += x[j] * load(b[j] + c);
    store(y + c, sum + other);
  }
}

/* The same for contiguous rows of F channels. */
INLINE void weighted_sum_edges(float *y, int64_t n, const float *x, const float *e, int64_t F) {
  for (int64_t c = 0; c < F; c += L) {
    V sum = load(y + c), other = {};
    int64_t j = 0;
    for (; j + 2 <= n; j += 2) sum += x[j] * load(e + j * F + c), other += x[j + 1] * load(e + (j + 1) * F + c);
    if (j < n) sum += x[j] * load(e + j * F + c);
    store(y + c, sum + other);
  }
}

/* y += W x for W (f, d) and x (d): y_c += W_c . x */
INLINE void add_matrix_vector(float *y, const float *w, int64_t f, const float *x, int64_t d) {
  for (int64_t c = 0; c < f; c += L) {
    V edge_sums[L];
    for (int i = 0; i < L; i++) {
      V sum = {};
      for (int64_t a = 0; a < d && c + i < f; a += L) sum += load(w + (c + i) * d + a) * load(x + a);
      edge_sums[i] = sum;
    }
    store(y + c, load(y + c) + lane_sums(edge_sums));
  }
}

/* Gathers the features of the edges into a receiver, with F channels, and the rows of their senders. */
static void gather_edges(const Job *job, int64_t i, int64_t degree, int64_t F, const float *x) {
  const SegmentTask *t = job->t;
  const int64_t *order = job->lists->order + job->lists->first[i];
  for (int64_t j = 0; j < degree; j++) {
    job->rows[j] = x + t->sender[order[j]] * t->k_stride;
    if (F) memcpy(job->scratch.e + j * F, t->e + order[j] * t->f, FLOAT_BYTES(t->f));
  }
}

/* Computes q and edge_queries of the scratch memory for a receiver. */
static void compute_queries(const Job *job, int64_t i, int64_t F) {
  const SegmentTask *t = job->t;
  const Scratch *s = &job->scratch;
  for (int64_t c = 0; c < t->h * t->d; c += L) store(s->q + c, load(t->q + i * t->q_stride + c) * t->scale);
  if (!F) return;
  memset(s->edge_queries, 0, FLOAT_BYTES(t->h * F));
  for (int64_t h = 0; h < t->h; h++) {
    if (t->w_be) memcpy(s->edge_queries + h * F, t->w_be + h * t->f, FLOAT_BYTES(t->f));
    if (job->w_keT)
      add_matrix_vector(s->edge_queries + h * F, job->w_keT + h * t->f * t->d, t->f, s->q + h * t->d, t->d);
  }
}

static void forward(Job *job) {
  const SegmentTask *t = job->t;
  const Scratch *s = &job->scratch;
  const int64_t d = t->d, F = t->e ? round_up(t->f, L) : 0, padded_degree = round_up(job->lists->max_degree, L);
  const float **keys = job->rows, **head_rows = job->head_rows;
  for (int64_t i = job->from; i < job->to; i++) {
    const int64_t first = job->lists->first[i], degree = job->lists->first[i + 1] - first;
    const int64_t *order = job->lists->order + first;
    float *y = t->output + i * t->h * d;
    memset(y, 0, FLOAT_BYTES(t->h * d));
    if (!degree) continue;
    gather_edges(job, i, degree, F, t->k);
    compute_queries(job, i, F);
    for (int64_t h = 0; h < t->h; h++) {
      float *w = s->w + h * padded_degree, *o = y + h * d;
      for (int64_t j = 0; j < degree; j++) head_rows[j] = keys[j] + h * d;
      dot_products(w, degree, s->q + h * d, head_rows, d, s->edge_queries + h * F, s->e, F);
      V maximum = {}, total = {};
      maximum += LOWEST;
      for (int64_t j = degree; j < round_up(degree, L); j++) w[j] = LOWEST;
      for (int64_t j = 0; j < degree; j += L) maximum = blend(load(w + j) > maximum, load(w + j), maximum);
      float largest = maximum[0];
      for (int l = 1; l < L; l++) largest = maximum[l] > largest ? maximum[l] : largest;
      for (int64_t j = 0; j < degree; j += L) store(w + j, exponential(load(w + j) - largest));
      for (int64_t j = degree; j < round_up(degree, L); j++) w[j] = 0;
      for (int64_t j = 0; j < degree; j += L) total += load(w + j);
      float sum = 0;
      for (int l = 0; l < L; l++) sum += total[l];
      float *edge_sums = s->edge_sums + h * F;
      memset(edge_sums, 0, FLOAT_BYTES(F));
      const float inverse_sum = 1 / sum;
      for (int64_t j = 0; j < degree; j++) {
        const int64_t at = order[j] * t->h + h;
        t->weights[at] = w[j] *= inverse_sum;
        if (t->dropout_mask) w[j] *= t->dropout_mask[at];
        head_rows[j] = t->v + (keys[j] - t->k) + h * d;
      }
      weighted_sum(o, degree, w, head_rows, d);
      if (job->w_veT) weighted_sum_edges(edge_sums, degree, w, s->e, F);
      for (int64_t x = 0; x < t->f && job->w_veT; x++)
        for (int64_t c = 0; c < d; c += L)
          store(o + c, load(o + c) + edge_sums[x] * load(job->w_veT + (h * t->f + x) * d + c));
    }
  }
}

/* The gradients of queries, edges, weight matrices and logits. */
static void backward_receivers(Job *job) {
  const SegmentTask *t = job->t;
  const Scratch *s = &job->scratch;
  const int64_t d = t->d, f = t->f, F = t->e ? round_up(f, L) : 0, padded_degree = round_up(job->lists->max_degree, L);
  const float **values = job->rows, **head_rows = job->head_rows;
  for (int64_t i = job->from; i < job->to; i++) {
    const int64_t first = job->lists->first[i], degree = job->lists->first[i + 1] - first;
    const int64_t *order = job->lists->order + first;
    const float *dy = t->dy + i * t->h * d;
    float *d_q = t->d_q + i * t->h * d;
    memset(d_q, 0, FLOAT_BYTES(t->h * d));
    if (!degree) continue;
    gather_edges(job, i, degree, F, t->v);
    compute_queries(job, i, F);
    if (F) memset(s->d_edge_sums, 0, FLOAT_BYTES(t->h * F));
    for (int64_t h = 0; h < t->h; h++) {
      float *w = s->w + h * padded_degree, *d_w = s->d_w + h * padded_degree;
      float *d_edge_queries = s->d_edge_queries + h * F, *edge_sums = s->edge_sums + h * F;
      if (job->w_veT) add_matrix_vector(s->d_edge_sums + h * F, job->w_veT + h * f * d, f, dy + h * d, d);
      for (int64_t j = 0; j < degree; j++) head_rows[j] = values[j] + h * d;
      dot_products(d_w, degree, dy + h * d, head_rows, d, s->d_edge_sums + h * F, s->e, job->w_veT ? F : 0);
      float weighted = 0;
      for (int64_t j = 0; j < degree; j++) {
        const int64_t at = order[j] * t->h + h;
        w[j] = t->weights[at];
        if (t->dropout_mask) d_w[j] *= t->dropout_mask[at];
        weighted += w[j] * d_w[j];
      }
      memset(d_edge_queries, 0, FLOAT_BYTES(F));
      memset(edge_sums, 0, FLOAT_BYTES(F));
      for (int64_t j = 0; j < degree; j++) {
        const int64_t at = order[j] * t->h + h;
        const float x = w[j] * (d_w[j] - weighted), dropped = t->dropout_mask ? w[j] * t->dropout_mask[at] : w[j];
        t->d_logits[at] = d_w[j] = x;
        w[j] = dropped;
        head_rows[j] = t->k + (values[j] - t->v) + h * d;
      }
      weighted_sum(d_q + h * d, degree, d_w, head_rows, d);
      weighted_sum_edges(d_edge_queries, degree, d_w, s->e, F);
      weighted_sum_edges(edge_sums, degree, w, s->e, F);
      for (int64_t x = 0; x < f && job->w_keT; x++)
        for (int64_t c = 0; c < d; c += L) {
          const int64_t at = (h * f + x) * d + c;
          store(d_q + h * d + c, load(d_q + h * d + c) + d_edge_queries[x] * load(job->w_keT + at));
          store(s->d_w_ke + at, load(s->d_w_ke + at) + d_edge_queries[x] * load(s->q + h * d + c));
        }
      for (int64_t x = 0; x < f && job->w_veT; x++)
        for (int64_t c = 0; c < d; c += L) {
          const int64_t at = (h * f + x) * d + c;
          store(s->d_w_ve + at, load(s->d_w_ve + at) + edge_sums[x] * load(dy + h * d + c));
        }
      for (int64_t c = 0; c < F; c += L)
        store(s->d_w_be + h * F + c, load(s->d_w_be + h * F + c) + load(d_edge_queries + c));
    }
    for (int64_t c = 0; c < t->h * d; c += L) store(d_q + c, load(d_q + c) * t->scale);
    for (int64_t j = 0; j < degree && t->d_e; j++) {
      float *edge = s->e + j * F;
      for (int64_t c = 0; c < F; c += L) {
        V sum = {};
        for (int64_t h = 0; h < t->h; h++) {
          sum += s->d_w[h * padded_degree + j] * load(s->edge_queries + h * F + c);
          if (job->w_veT) sum += s->w[h * padded_degree + j] * load(s->d_edge_sums + h * F + c);
        }
        store(edge + c, sum);
      }
      memcpy(t->d_e + order[j] * f, edge, FLOAT_BYTES(f));
      memset(edge + f, 0, FLOAT_BYTES(F - f));
    }
  }
}

/* The gradients of keys and values, from those of the logits. */
static void backward_senders(Job *job) {
  const SegmentTask *t = job->t;
  const int64_t d = t->d;
  for (int64_t i = job->from; i < job->to; i++) {
    float *d_k = t->d_k + i * t->h * d, *d_v = t->d_v + i * t->h * d;
    memset(d_k, 0, FLOAT_BYTES(t->h * d));
    memset(d_v, 0, FLOAT_BYTES(t->h * d));
    for (int64_t j = job->lists->first[i]; j < job->lists->first[i + 1]; j++) {
      const int64_t k = job->lists->order[j], r = t->receiver[k];
      const float *q = t->q + r * t->q_stride, *dy = t->dy + r * t->h * d;
      for (int64_t h = 0; h < t->h; h++) {
        const int64_t at = k * t->h + h;
        const float x = t->d_logits[at] * t->scale;
        const float dropped = t->dropout_mask ? t->weights[at] * t->dropout_mask[at] : t->weights[at];
        for (int64_t c = h * d; c < (h + 1) * d; c += L) {
          store(d_k + c, load(d_k + c) + x * load(q + c));
          store(d_v + c, load(d_v + c) + dropped * load(dy + c));
        }
      }
    }
  }
}

static void *run_job(void *job) {
  ((Job *)job)->function(job);
  return NULL;
}

/* Divides the nodes into consecutive groups with about equally many edges, one for each thread. The division depends
 * only on the edges and the number of threads. */
static void run_in_threads(Job *jobs, int threads, int64_t nodes) {
  const EdgeLists *lists = jobs->lists;
  int64_t node = 0;
  for (int p = 0; p < threads; p++) {
    jobs[p].from = node;
    const int64_t until = lists->first[nodes] * (p + 1) / threads;
    while (node < nodes && (p + 1 == threads || lists->first[node] < until)) node++;
    jobs[p].to = node;
  }
  run_jobs(run_job, jobs, sizeof(Job), threads);
}

/* A weight matrix (h, d, f) transposed to (h, f, d) in new memory, which the caller frees; NULL if out of memory. */
static float *transposed_weights(const SegmentTask *t, const float *w) {
  float *to = malloc(FLOAT_BYTES(t->h * t->f * t->d) + 64);
  for (int64_t h = 0; h < t->h && to; h++)
    for (int64_t c = 0; c < t->d; c++)
      for (int64_t x = 0; x < t->f; x++) to[(h * t->f + x) * t->d + c] = w[(h * t->d + c) * t->f + x];
  return to;
}

/* Runs forward or backward. Returns 0, 1 if out of memory, or 2 if a sender or receiver is out of range. */
static int run_task(const SegmentTask *t, int threads, int backward) {
  EdgeLists by_receiver = {}, by_sender = {};
  Job *jobs = NULL;
  float *memory = NULL, *w_keT = NULL, *w_veT = NULL;
  const float **rows = NULL;
  int failed = group_edges(&by_receiver, t->receiver, t->edges, t->receivers);
  if (!failed) failed = group_edges(&by_sender, t->sender, t->edges, t->senders);
  if (threads < 1 || t->edges * t->h * t->d < 65536) threads = 1;
  const int64_t F = t->e ? round_up(t->f, L) : 0, padded_degree = round_up(by_receiver.max_degree, L);
  const int64_t hF = t->h * F, hfd = t->h * t->f * t->d, h_degree = t->h * padded_degree;
  const int64_t sizes[] = {by_receiver.max_degree * F, h_degree, h_degree, t->h * t->d, hF, hF, hF, hF, hfd, hfd, hF};
  enum { NUM_BUFFERS = sizeof sizes / sizeof *sizes };
  int64_t each = 0;
  for (int p = 0; p < NUM_BUFFERS; p++) each += round_up(sizes[p], 16);
  if (!failed) {
    jobs = calloc(threads, sizeof(Job));
    memory = calloc((size_t)each * threads + 16, sizeof(float));
    rows = calloc((size_t)by_receiver.max_degree * threads * 2 + 1, sizeof(float *));
    if (t->w_ke && F) w_keT = transposed_weights(t, t->w_ke);
    if (t->w_ve && F) w_veT = transposed_weights(t, t->w_ve);
    if (!jobs || !memory || !rows || (t->w_ke && F && !w_keT) || (t->w_ve && F && !w_veT)) failed = 1;
  }
  for (int p = 0; p < threads && !failed; p++) {
    Scratch *s = &jobs[p].scratch;
    float **buffers[NUM_BUFFERS] = {&s->e, &s->w, &s->d_w, &s->q, &s->edge_queries, &s->d_edge_queries,
                                    &s->edge_sums, &s->d_edge_sums, &s->d_w_ke, &s->d_w_ve, &s->d_w_be};
    float *at = memory + each * p;
    for (int b = 0; b < NUM_BUFFERS; at += round_up(sizes[b++], 16)) *buffers[b] = at;
    jobs[p].t = t, jobs[p].lists = &by_receiver, jobs[p].w_keT = w_keT, jobs[p].w_veT = w_veT;
    jobs[p].rows = rows + 2 * p * by_receiver.max_degree, jobs[p].head_rows = jobs[p].rows + by_receiver.max_degree;
    jobs[p].function = backward ? backward_receivers : forward;
  }
  if (!failed) run_in_threads(jobs, threads, t->receivers);
  if (!failed && backward) {
    for (int64_t h = 0; h < t->h; h++)
      for (int64_t x = 0; x < t->f && F; x++) {
        for (int64_t c = 0; c < t->d; c++) {
          float d_key = 0, d_value = 0;
          for (int p = 0; p < threads; p++) {
            d_key += jobs[p].scratch.d_w_ke[(h * t->f + x) * t->d + c];
            d_value += jobs[p].scratch.d_w_ve[(h * t->f + x) * t->d + c];
          }
          if (t->d_w_ke) t->d_w_ke[(h * t->d + c) * t->f + x] = d_key;
          if (t->d_w_ve) t->d_w_ve[(h * t->d + c) * t->f + x] = d_value;
        }
        float d_bias = 0;
        for (int p = 0; p < threads; p++) d_bias += jobs[p].scratch.d_w_be[h * F + x];
        if (t->d_w_be) t->d_w_be[h * t->f + x] = d_bias;
      }
    for (int p = 0; p < threads; p++) jobs[p].lists = &by_sender, jobs[p].function = backward_senders;
    run_in_threads(jobs, threads, t->senders);
  }
  free(by_receiver.first), free(by_receiver.order), free(by_sender.first), free(by_sender.order);
  free(jobs), free(memory), free(rows), free(w_keT), free(w_veT);
  return failed;
}

int molattn_segments_forward(const SegmentTask *task, int threads) { return run_task(task, threads, 0); }
int molattn_segments_backward(const SegmentTask *task, int threads) { return run_task(task, threads, 1); }
