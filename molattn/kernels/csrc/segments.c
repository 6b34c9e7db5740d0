/* Attention over edge lists, forward and backward, a receiver at a time.
 *
 * The equations are those of molattn.attention.attend with edges and an EdgeListLayout: h heads of d channels, f
 * channels of the edges, receiver i, sender j, edge k. Edges come in any order: they are counted into the receivers,
 * and for the gradients of keys and values into the senders, so that every number has one thread that adds to it, in
 * one order. Nothing of the size of the edges times the channels is ever formed. */

#include <pthread.h>

#include "layout.h"
#include "vectors.h"

/* molattn.kernels.segments.Task; d is a multiple of 16. */
typedef struct {
  int64_t receivers, senders, edges, h, d, f;
  int64_t q_stride, k_stride;       /* numbers from one row to the next: of q, and of k and v */
  float scale;
  const float *q;                   /* (receivers, h, d) */
  const float *k, *v;               /* (senders, h, d) */
  const int64_t *sender, *receiver; /* (edges,) */
  const float *e;                   /* (edges, f), or NULL */
  const float *w_ke, *w_ve;         /* (h, d, f), or NULL */
  const float *w_be;                /* (h, f), or NULL */
  const float *kept;                /* (edges, h), what weights are multiplied by, or NULL */
  float *weights;                   /* (edges, h), before that: written forward, read backward */
  float *output;                    /* (receivers, h, d) */
  const float *dy;                  /* (receivers, h, d) */
  float *d_logits;                  /* (edges, h), room */
  float *d_q, *d_k, *d_v;           /* (receivers or senders, h, d) */
  float *d_e;                       /* (edges, f), or NULL */
  float *d_w_ke, *d_w_ve;           /* (h, d, f), or NULL */
  float *d_w_be;                    /* (h, f), or NULL */
} Task;
LAYOUT(Task, FIELD(Task, receivers) FIELD(Task, senders) FIELD(Task, edges) FIELD(Task, h) FIELD(Task, d)
       FIELD(Task, f) FIELD(Task, q_stride) FIELD(Task, k_stride) FIELD(Task, scale) FIELD(Task, q) FIELD(Task, k)
       FIELD(Task, v) FIELD(Task, sender) FIELD(Task, receiver) FIELD(Task, e) FIELD(Task, w_ke) FIELD(Task, w_ve)
       FIELD(Task, w_be) FIELD(Task, kept) FIELD(Task, weights) FIELD(Task, output) FIELD(Task, dy)
       FIELD(Task, d_logits) FIELD(Task, d_q) FIELD(Task, d_k) FIELD(Task, d_v) FIELD(Task, d_e) FIELD(Task, d_w_ke)
       FIELD(Task, d_w_ve) FIELD(Task, d_w_be));

/* The edges of each node, one after another: those of node i are order[first[i]] to order[first[i + 1] - 1]. */
typedef struct {
  int64_t *first, *order, most;
} Lists;

/* What a thread works in; F is f with room for whole vectors. */
typedef struct {
  float *e;                     /* (most, F), zeros behind f */
  float *w, *d_w;               /* (h, most) with room for whole vectors */
  float *q;                     /* (h, d), times the scale */
  float *at_edges, *d_at_edges; /* (h, F) */
  float *sums, *d_sums;         /* (h, F) */
  float *d_w_ke, *d_w_ve;       /* (h, f, d): sums over the receivers of the thread */
  float *d_w_be;                /* (h, F) */
} Space;

typedef struct Job {
  const Task *t;
  const Lists *lists;
  const float *w_keT, *w_veT; /* (h, f, d), or NULL */
  void (*run)(struct Job *);
  int64_t from, to; /* nodes */
  const float **rows, **here; /* (most,) of the other nodes, and of one head of them */
  Space space;
} Job;

/* The edges counted into the lists of `nodes` nodes. Returns 1 without memory, 2 for a node that is not there. */
static int count_into(Lists *lists, const int64_t *node, int64_t edges, int64_t nodes) {
  int64_t *next = malloc(((size_t)nodes + 1) * sizeof(int64_t));
  lists->first = calloc((size_t)nodes + 1, sizeof(int64_t));
  lists->order = malloc(((size_t)edges + 1) * sizeof(int64_t));
  int failed = !next || !lists->first || !lists->order;
  for (int64_t k = 0; k < edges && !failed; k++)
    if (node[k] < 0 || node[k] >= nodes) failed = 2;
    else lists->first[node[k] + 1]++;
  lists->most = 0;
  for (int64_t i = 0; i < nodes && !failed; i++) {
    if (lists->first[i + 1] > lists->most) lists->most = lists->first[i + 1];
    lists->first[i + 1] += next[i] = lists->first[i];
  }
  for (int64_t k = 0; k < edges && !failed; k++) lists->order[next[node[k]]++] = k;
  free(next);
  return failed;
}

/* The sums of the lanes of L vectors, in the lanes of one. */
INLINE V sums_of(V x[L]) {
  transpose(x);
  for (int width = L / 2; width; width /= 2)
    for (int i = 0; i < width; i++) x[i] += x[i + width];
  return x[0];
}

/* y_j = a . b_j + u . e_j for n rows b_j of d channels and e_j of F. */
INLINE void products_of(float *y, int64_t n, const float *a, const float *const *b, int64_t d, const float *u,
                        const float *e, int64_t F) {
  for (int64_t j = 0; j < n; j += L) {
    V x[L];
    for (int i = 0; i < L; i++) {
      const int64_t at = j + i < n ? j + i : n - 1; /* the last one more than once, and none of those is read */
      V sum = {};
      for (int64_t c = 0; c < d; c += L) sum += load(a + c) * load(b[at] + c);
      for (int64_t c = 0; c < F; c += L) sum += load(u + c) * load(e + at * F + c);
      x[i] = sum;
    }
    store(y + j, sums_of(x));
  }
}

/* The same, faster where every row is one vector, as the compiler then knows. */
static void products(float *y, int64_t n, const float *a, const float *const *b, int64_t d, const float *u, const float *e,
                     int64_t F) {
  if (d == L && F == L) products_of(y, n, a, b, L, u, e, L);
  else if (d == L && !F) products_of(y, n, a, b, L, u, e, 0);
  else products_of(y, n, a, b, d, u, e, F);
}

/* y += sum_j x_j b_j for n rows b_j of d channels. */
INLINE void weigh(float *y, int64_t n, const float *x, const float *const *b, int64_t d) {
  for (int64_t c = 0; c < d; c += L) {
    V sum = load(y + c), other = {};
    int64_t j = 0;
    for (; j + 2 <= n; j += 2) sum += x[j] * load(b[j] + c), other += x[j + 1] * load(b[j + 1] + c);
    if (j < n) sum += x[j] * load(b[j] + c);
    store(y + c, sum + other);
  }
}

/* The same for rows one after another. */
INLINE void weigh_edges(float *y, int64_t n, const float *x, const float *e, int64_t F) {
  for (int64_t c = 0; c < F; c += L) {
    V sum = load(y + c), other = {};
    int64_t j = 0;
    for (; j + 2 <= n; j += 2) sum += x[j] * load(e + j * F + c), other += x[j + 1] * load(e + (j + 1) * F + c);
    if (j < n) sum += x[j] * load(e + j * F + c);
    store(y + c, sum + other);
  }
}

/* y += W^T x for W (f rows of d) and x (d): y_c += W_c . x */
INLINE void times_rows(float *y, const float *w, int64_t f, const float *x, int64_t d) {
  for (int64_t c = 0; c < f; c += L) {
    V sums[L];
    for (int i = 0; i < L; i++) {
      V sum = {};
      for (int64_t a = 0; a < d && c + i < f; a += L) sum += load(w + (c + i) * d + a) * load(x + a);
      sums[i] = sum;
    }
    store(y + c, load(y + c) + sums_of(sums));
  }
}

/* The edges into a receiver, each with F channels, and the rows of their senders. */
static void gather(const Job *job, int64_t i, int64_t degree, int64_t F, const float *of) {
  const Task *t = job->t;
  const int64_t *order = job->lists->order + job->lists->first[i];
  for (int64_t j = 0; j < degree; j++) {
    job->rows[j] = of + t->sender[order[j]] * t->k_stride;
    if (F) memcpy(job->space.e + j * F, t->e + order[j] * t->f, FLOATS(t->f));
  }
}

/* What a receiver multiplies the edges with: (h, F). */
static void ask(const Job *job, int64_t i, int64_t F) {
  const Task *t = job->t;
  const Space *s = &job->space;
  for (int64_t c = 0; c < t->h * t->d; c += L) store(s->q + c, load(t->q + i * t->q_stride + c) * t->scale);
  if (!F) return;
  memset(s->at_edges, 0, FLOATS(t->h * F));
  for (int64_t h = 0; h < t->h; h++) {
    if (t->w_be) memcpy(s->at_edges + h * F, t->w_be + h * t->f, FLOATS(t->f));
    if (job->w_keT) times_rows(s->at_edges + h * F, job->w_keT + h * t->f * t->d, t->f, s->q + h * t->d, t->d);
  }
}

static void forward(Job *job) {
  const Task *t = job->t;
  const Space *s = &job->space;
  const int64_t d = t->d, F = t->e ? up(t->f, L) : 0, room = up(job->lists->most, L);
  const float **keys = job->rows, **here = job->here;
  for (int64_t i = job->from; i < job->to; i++) {
    const int64_t first = job->lists->first[i], degree = job->lists->first[i + 1] - first;
    const int64_t *order = job->lists->order + first;
    float *y = t->output + i * t->h * d;
    memset(y, 0, FLOATS(t->h * d));
    if (!degree) continue;
    gather(job, i, degree, F, t->k);
    ask(job, i, F);
    for (int64_t h = 0; h < t->h; h++) {
      float *w = s->w + h * room, *o = y + h * d;
      for (int64_t j = 0; j < degree; j++) here[j] = keys[j] + h * d;
      products(w, degree, s->q + h * d, here, d, s->at_edges + h * F, s->e, F);
      V top = {}, total = {};
      top += LOWEST;
      for (int64_t j = degree; j < up(degree, L); j++) w[j] = LOWEST;
      for (int64_t j = 0; j < degree; j += L) top = pick(load(w + j) > top, load(w + j), top);
      float largest = top[0];
      for (int l = 1; l < L; l++) largest = top[l] > largest ? top[l] : largest;
      for (int64_t j = 0; j < degree; j += L) store(w + j, exponential(load(w + j) - largest));
      for (int64_t j = degree; j < up(degree, L); j++) w[j] = 0;
      for (int64_t j = 0; j < degree; j += L) total += load(w + j);
      float sum = 0;
      for (int l = 0; l < L; l++) sum += total[l];
      float *sums = s->sums + h * F;
      memset(sums, 0, FLOATS(F));
      const float share = 1 / sum;
      for (int64_t j = 0; j < degree; j++) {
        const int64_t at = order[j] * t->h + h;
        t->weights[at] = w[j] *= share;
        if (t->kept) w[j] *= t->kept[at];
        here[j] = t->v + (keys[j] - t->k) + h * d;
      }
      weigh(o, degree, w, here, d);
      if (job->w_veT) weigh_edges(sums, degree, w, s->e, F);
      for (int64_t x = 0; x < t->f && job->w_veT; x++)
        for (int64_t c = 0; c < d; c += L)
          store(o + c, load(o + c) + sums[x] * load(job->w_veT + (h * t->f + x) * d + c));
    }
  }
}

/* The gradients of queries, edges and matrices, and of the logits. */
static void backward_receivers(Job *job) {
  const Task *t = job->t;
  const Space *s = &job->space;
  const int64_t d = t->d, f = t->f, F = t->e ? up(f, L) : 0, room = up(job->lists->most, L);
  const float **values = job->rows, **here = job->here;
  for (int64_t i = job->from; i < job->to; i++) {
    const int64_t first = job->lists->first[i], degree = job->lists->first[i + 1] - first;
    const int64_t *order = job->lists->order + first;
    const float *dy = t->dy + i * t->h * d;
    float *d_q = t->d_q + i * t->h * d;
    memset(d_q, 0, FLOATS(t->h * d));
    if (!degree) continue;
    gather(job, i, degree, F, t->v);
    ask(job, i, F);
    if (F) memset(s->d_sums, 0, FLOATS(t->h * F));
    for (int64_t h = 0; h < t->h; h++) {
      float *w = s->w + h * room, *d_w = s->d_w + h * room, *d_at = s->d_at_edges + h * F, *sums = s->sums + h * F;
      if (job->w_veT) times_rows(s->d_sums + h * F, job->w_veT + h * f * d, f, dy + h * d, d);
      for (int64_t j = 0; j < degree; j++) here[j] = values[j] + h * d;
      products(d_w, degree, dy + h * d, here, d, s->d_sums + h * F, s->e, job->w_veT ? F : 0);
      float all = 0;
      for (int64_t j = 0; j < degree; j++) {
        const int64_t at = order[j] * t->h + h;
        w[j] = t->weights[at];
        if (t->kept) d_w[j] *= t->kept[at];
        all += w[j] * d_w[j];
      }
      memset(d_at, 0, FLOATS(F));
      memset(sums, 0, FLOATS(F));
      for (int64_t j = 0; j < degree; j++) {
        const int64_t at = order[j] * t->h + h;
        const float x = w[j] * (d_w[j] - all), used = t->kept ? w[j] * t->kept[at] : w[j];
        t->d_logits[at] = d_w[j] = x;
        w[j] = used;
        here[j] = t->k + (values[j] - t->v) + h * d;
      }
      weigh(d_q + h * d, degree, d_w, here, d);
      weigh_edges(d_at, degree, d_w, s->e, F);
      weigh_edges(sums, degree, w, s->e, F);
      for (int64_t x = 0; x < f && job->w_keT; x++)
        for (int64_t c = 0; c < d; c += L) {
          const int64_t at = (h * f + x) * d + c;
          store(d_q + h * d + c, load(d_q + h * d + c) + d_at[x] * load(job->w_keT + at));
          store(s->d_w_ke + at, load(s->d_w_ke + at) + d_at[x] * load(s->q + h * d + c));
        }
      for (int64_t x = 0; x < f && job->w_veT; x++)
        for (int64_t c = 0; c < d; c += L) {
          const int64_t at = (h * f + x) * d + c;
          store(s->d_w_ve + at, load(s->d_w_ve + at) + sums[x] * load(dy + h * d + c));
        }
      for (int64_t c = 0; c < F; c += L) store(s->d_w_be + h * F + c, load(s->d_w_be + h * F + c) + load(d_at + c));
    }
    for (int64_t c = 0; c < t->h * d; c += L) store(d_q + c, load(d_q + c) * t->scale);
    for (int64_t j = 0; j < degree && t->d_e; j++) {
      float *edge = s->e + j * F;
      for (int64_t c = 0; c < F; c += L) {
        V sum = {};
        for (int64_t h = 0; h < t->h; h++) {
          sum += s->d_w[h * room + j] * load(s->at_edges + h * F + c);
          if (job->w_veT) sum += s->w[h * room + j] * load(s->d_sums + h * F + c);
        }
        store(edge + c, sum);
      }
      memcpy(t->d_e + order[j] * f, edge, FLOATS(f));
      memset(edge + f, 0, FLOATS(F - f));
    }
  }
}

/* The gradients of keys and values, from those of the logits. */
static void backward_senders(Job *job) {
  const Task *t = job->t;
  const int64_t d = t->d;
  for (int64_t i = job->from; i < job->to; i++) {
    float *d_k = t->d_k + i * t->h * d, *d_v = t->d_v + i * t->h * d;
    memset(d_k, 0, FLOATS(t->h * d));
    memset(d_v, 0, FLOATS(t->h * d));
    for (int64_t j = job->lists->first[i]; j < job->lists->first[i + 1]; j++) {
      const int64_t k = job->lists->order[j], r = t->receiver[k];
      const float *q = t->q + r * t->q_stride, *dy = t->dy + r * t->h * d;
      for (int64_t h = 0; h < t->h; h++) {
        const int64_t at = k * t->h + h;
        const float x = t->d_logits[at] * t->scale, used = t->kept ? t->weights[at] * t->kept[at] : t->weights[at];
        for (int64_t c = h * d; c < (h + 1) * d; c += L) {
          store(d_k + c, load(d_k + c) + x * load(q + c));
          store(d_v + c, load(d_v + c) + used * load(dy + c));
        }
      }
    }
  }
}

static void *run(void *job) {
  ((Job *)job)->run(job);
  return NULL;
}

/* Nodes in runs of about as many edges, one for each thread: which goes where depends on nothing but the lists. */
static void in_threads(Job *jobs, int threads, int64_t nodes) {
  const Lists *lists = jobs->lists;
  int64_t node = 0;
  for (int p = 0; p < threads; p++) {
    jobs[p].from = node;
    const int64_t until = lists->first[nodes] * (p + 1) / threads;
    while (node < nodes && (p + 1 == threads || lists->first[node] < until)) node++;
    jobs[p].to = node;
  }
  pthread_t ids[threads];
  int started = 1;
  for (; started < threads; started++)
    if (pthread_create(&ids[started], NULL, run, jobs + started)) break;
  run(jobs);
  for (int p = started; p < threads; p++) run(jobs + p); /* no more threads to be had: their work is done here */
  for (int p = 1; p < started; p++) pthread_join(ids[p], NULL);
}

static float *turned(const Task *t, const float *w) {
  float *to = malloc(FLOATS(t->h * t->f * t->d) + 64);
  for (int64_t h = 0; h < t->h && to; h++)
    for (int64_t c = 0; c < t->d; c++)
      for (int64_t x = 0; x < t->f; x++) to[(h * t->f + x) * t->d + c] = w[(h * t->d + c) * t->f + x];
  return to;
}

/* Returns 0, 1 without memory, or 2 for an edge whose node is not there. */
static int go(const Task *t, int threads, int backward) {
  Lists by_receiver = {}, by_sender = {};
  Job *jobs = NULL;
  float *space = NULL, *w_keT = NULL, *w_veT = NULL;
  const float **rows = NULL;
  int failed = count_into(&by_receiver, t->receiver, t->edges, t->receivers);
  if (!failed) failed = count_into(&by_sender, t->sender, t->edges, t->senders);
  if (threads < 1 || t->edges * t->h * t->d < 65536) threads = 1;
  const int64_t F = t->e ? up(t->f, L) : 0, room = up(by_receiver.most, L), hF = t->h * F, hfd = t->h * t->f * t->d;
  const int64_t sizes[] = {by_receiver.most * F, t->h * room, t->h * room, t->h * t->d, hF, hF, hF, hF, hfd, hfd, hF};
  enum { PARTS = sizeof sizes / sizeof *sizes };
  int64_t each = 0;
  for (int p = 0; p < PARTS; p++) each += up(sizes[p], 16);
  if (!failed) {
    jobs = calloc(threads, sizeof(Job));
    space = calloc((size_t)each * threads + 16, sizeof(float));
    rows = calloc((size_t)by_receiver.most * threads * 2 + 1, sizeof(float *));
    if (t->w_ke && F) w_keT = turned(t, t->w_ke);
    if (t->w_ve && F) w_veT = turned(t, t->w_ve);
    if (!jobs || !space || !rows || (t->w_ke && F && !w_keT) || (t->w_ve && F && !w_veT)) failed = 1;
  }
  for (int p = 0; p < threads && !failed; p++) {
    Space *s = &jobs[p].space;
    float **parts[PARTS] = {&s->e, &s->w, &s->d_w, &s->q, &s->at_edges, &s->d_at_edges, &s->sums, &s->d_sums,
                            &s->d_w_ke, &s->d_w_ve, &s->d_w_be};
    float *at = space + each * p;
    for (int part = 0; part < PARTS; at += up(sizes[part++], 16)) *parts[part] = at;
    jobs[p].t = t, jobs[p].lists = &by_receiver, jobs[p].w_keT = w_keT, jobs[p].w_veT = w_veT;
    jobs[p].rows = rows + 2 * p * by_receiver.most, jobs[p].here = jobs[p].rows + by_receiver.most;
    jobs[p].run = backward ? backward_receivers : forward;
  }
  if (!failed) in_threads(jobs, threads, t->receivers);
  if (!failed && backward) {
    for (int64_t h = 0; h < t->h; h++)
      for (int64_t x = 0; x < t->f && F; x++) {
        for (int64_t c = 0; c < t->d; c++) {
          float of_keys = 0, of_values = 0;
          for (int p = 0; p < threads; p++) {
            of_keys += jobs[p].space.d_w_ke[(h * t->f + x) * t->d + c];
            of_values += jobs[p].space.d_w_ve[(h * t->f + x) * t->d + c];
          }
          if (t->d_w_ke) t->d_w_ke[(h * t->d + c) * t->f + x] = of_keys;
          if (t->d_w_ve) t->d_w_ve[(h * t->d + c) * t->f + x] = of_values;
        }
        float of_bias = 0;
        for (int p = 0; p < threads; p++) of_bias += jobs[p].space.d_w_be[h * F + x];
        if (t->d_w_be) t->d_w_be[h * t->f + x] = of_bias;
      }
    for (int p = 0; p < threads; p++) jobs[p].lists = &by_sender, jobs[p].run = backward_senders;
    in_threads(jobs, threads, t->senders);
  }
  free(by_receiver.first), free(by_receiver.order), free(by_sender.first), free(by_sender.order);
  free(jobs), free(space), free(rows), free(w_keT), free(w_veT);
  return failed;
}

int molattn_segments_forward(const Task *task, int threads) { return go(task, threads, 0); }
int molattn_segments_backward(const Task *task, int threads) { return go(task, threads, 1); }
