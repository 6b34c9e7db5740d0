/* A whole block of the default model, forward and backward, some graphs at a time in a core's own cache.
 *
 * The equations are those of molattn/graph/block.py, edge_update.py and updates.py:
 *
 *     packed = norm_v(v) W_qkv^T
 *     o      = attention of packed to the edges          edge_attention.c
 *     x      = v + drop(o W_o^T + b_o)
 *     a      = norm_x(x) W_1^T + b_1
 *     out    = x + drop(drop(gelu(a)) W_2^T + b_2)
 *
 * A few graphs make some hundred rows; these go through all of it before the next graphs are begun, without their
 * padding. For the gradient packed, o, x and a are kept. */

#include <math.h>

#include "../attention/matrices.h"
#include "edge_attention.c"

/* molattn.graph.compiled_block: the classes of these names. */
typedef struct {
  const float *w, *b; /* (c,) */
  float *d_w, *d_b;
  float eps;
} Norm;
typedef struct {
  const float *w, *b; /* (out, in), (out,) */
  float *d_w, *d_b;
} Linear;
typedef struct {
  int64_t rows, c, hidden, plain; /* of all places; of a node; inside the feed-forward step; matrix units are left out */
  Task attention;                 /* but packed, output and their gradients */
  Norm norm_v, norm_x;
  Linear qkv, o, first, last;     /* qkv without b */
  Dropping of_edges, of_hidden, of_nodes;
  const float *v;                 /* (rows, c) */
  float *out;                     /* (rows, c) */
  float *kept;                    /* what `molattn_block_kept` counts; NULL where no gradient will be asked for */
  const float *d_out;             /* (rows, c) */
  float *d_v;                     /* (rows, c) */
} Step;

enum { ENOUGH = 96 }; /* rows of a chunk: its numbers stay in the second level of a cache */

/* Consecutive graphs of one place; their rows without padding; the rows of the chunks before, rounded up. */
typedef struct {
  const Graphs *in;
  int64_t first, count, rows, before;
} Chunk;

/* Gradients that are sums over all rows. */
enum { QKV, O, FIRST, LAST, NORM_V_W, NORM_V_B, NORM_X_W, NORM_X_B, O_B, FIRST_B, LAST_B, SUMS };

/* What the threads of a call have in common. */
typedef struct {
  const Step *step;
  int backward, units;
  const Chunk *chunks;
  Weights qkv, o, first, last;
} Work;

/* A thread, and what it works in: matrices of the rows of a chunk, with c or as many columns as stand behind. */
typedef struct {
  const Work *work;
  int64_t from, to; /* chunks */
  Desk desk;
  Space space;
  float *sums[SUMS];
  float *packed, *o, *x, *a; /* 3w, w, c, hidden: where they are not kept */
  float *normed, *y, *g, *slope, *d_packed, *d_hidden, *d_x, *d_y; /* c, c, hidden, hidden, 3w, hidden, c, c or w */
} Thread;

INLINE int64_t nodes_of(const Graphs *in, int64_t g) { return in->sizes ? in->sizes[g] : in->n; }
INLINE int64_t width(const Step *t) { return t->attention.h * t->attention.d; }
INLINE int64_t kept_of_row(const Step *t) { return 4 * width(t) + t->c + t->hidden; }

INLINE int64_t size_of_sum(const Step *t, int sum) {
  return sum == QKV                   ? 3 * width(t) * t->c
         : sum == O                   ? width(t) * t->c
         : sum == FIRST || sum == LAST ? t->hidden * t->c
         : sum == FIRST_B             ? t->hidden
                                      : t->c;
}

/* For every graph g of a chunk: its n nodes are the rows r, r + 1, ... of the chunk, and `at`, ... of the tensors. */
#define EACH_GRAPH(chunk)                                                                                      \
  for (int64_t g = (chunk)->first, r = 0, n = 0, at = (chunk)->in->start + g * (chunk)->in->n;                 \
       g < (chunk)->first + (chunk)->count && (n = nodes_of((chunk)->in, g), 1);                               \
       g++, r += n, at += (chunk)->in->n)

INLINE float total(V x) {
  float sum = 0;
  for (int l = 0; l < L; l++) sum += x[l];
  return sum;
}

/* The mean of a row and one over its standard deviation. */
INLINE void moments(const float *x, int64_t c, float eps, float *mean, float *rate) {
  V sum = {}, squares = {};
  for (int64_t k = 0; k < c; k += L) sum += load(x + k);
  *mean = total(sum) / (float)c;
  for (int64_t k = 0; k < c; k += L) {
    const V apart = load(x + k) - *mean;
    squares += apart * apart;
  }
  *rate = 1.0f / sqrtf(total(squares) / (float)c + eps);
}

/* y = (x - mean) / std * w + b, of m rows. */
static void normalize(float *y, const float *x, int64_t m, int64_t c, const Norm *norm) {
  for (int64_t r = 0; r < m; r++, x += c, y += c) {
    float mean, rate;
    moments(x, c, norm->eps, &mean, &rate);
    for (int64_t k = 0; k < c; k += L)
      store(y + k, (load(x + k) - mean) * rate * load(norm->w + k) + load(norm->b + k));
  }
}

/* dx += dL/dx, d_w += dL/dw and d_b += dL/db of `normalize`. */
static void normalize_back(float *dx, const float *dy, const float *x, int64_t m, int64_t c, const Norm *norm,
                           float *d_w, float *d_b) {
  for (int64_t r = 0; r < m; r++, x += c, dy += c, dx += c) {
    float mean, rate;
    moments(x, c, norm->eps, &mean, &rate);
    V sum = {}, along = {};
    for (int64_t k = 0; k < c; k += L) {
      const V g = load(dy + k), z = (load(x + k) - mean) * rate, gw = g * load(norm->w + k);
      store(d_w + k, load(d_w + k) + g * z);
      store(d_b + k, load(d_b + k) + g);
      sum += gw;
      along += gw * z;
    }
    const float of_mean = total(sum) / (float)c, of_rate = total(along) / (float)c;
    for (int64_t k = 0; k < c; k += L) {
      const V z = (load(x + k) - mean) * rate;
      store(dx + k, load(dx + k) + rate * (load(dy + k) * load(norm->w + k) - of_mean - z * of_rate));
    }
  }
}

/* m x, of the elements from `place` on. */
INLINE V dropped(const Dropping *m, V x, int64_t place) {
  if (m->threshold) x *= kept(m, lanes() + (uint32_t)place);
  return x;
}

/* y = a + m (z + b), of the rows of a graph: whose first is `at` in the tensor that m belongs to. */
static void add_dropped(float *y, const float *a, const float *z, const float *b, int64_t rows, int64_t c,
                        const Dropping *m, int64_t at) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < c; k += L) {
      const int64_t x = i * c + k;
      store(y + x, load(a + x) + dropped(m, load(z + x) + load(b + k), at * c + x));
    }
}

/* y = m x, and d_b += their sum, of the rows of a graph as above. */
static void drop_back(float *y, const float *x, float *d_b, int64_t rows, int64_t c, const Dropping *m, int64_t at) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < c; k += L) {
      const V z = dropped(m, load(x + i * c + k), at * c + i * c + k);
      store(y + i * c + k, z);
      store(d_b + k, load(d_b + k) + z);
    }
}

typedef struct {
  float *packed, *o, *x, *a;
} Kept;

static Kept kept_rows(const Thread *s, const Chunk *chunk) {
  const Step *t = s->work->step;
  const int64_t w = width(t), m = up(chunk->rows, ROWS_UP);
  if (!t->kept) return (Kept){s->packed, s->o, s->x, s->a};
  float *at = t->kept + chunk->before * kept_of_row(t);
  return (Kept){at, at + m * 3 * w, at + m * 4 * w, at + m * (4 * w + t->c)};
}

static void forward_chunk(const Thread *s, const Chunk *chunk) {
  const Work *work = s->work;
  const Step *t = work->step;
  const int64_t c = t->c, hidden = t->hidden, m = chunk->rows;
  const Kept is = kept_rows(s, chunk);
  EACH_GRAPH(chunk) normalize(s->normed + r * c, t->v + at * c, n, c, &t->norm_v);
  apply(&work->qkv, &s->desk, is.packed, s->normed, m);
  Task attention = t->attention;
  attention.packed = is.packed, attention.output = is.o;
  EACH_GRAPH(chunk) {
    Block block = {chunk->in, g, n, r, 0, 0};
    attend(&attention, &block, &s->space);
  }
  apply(&work->o, &s->desk, s->y, is.o, m);
  EACH_GRAPH(chunk) add_dropped(is.x + r * c, t->v + at * c, s->y + r * c, t->o.b, n, c, &t->of_edges, at);
  normalize(s->normed, is.x, m, c, &t->norm_x);
  apply(&work->first, &s->desk, is.a, s->normed, m);
  EACH_GRAPH(chunk)
    for (int64_t i = 0; i < n; i++)
      for (int64_t k = 0; k < hidden; k += L) {
        float *a = is.a + (r + i) * hidden + k;
        const V z = load(a) + load(t->first.b + k);
        store(a, z);
        store(s->g + (r + i) * hidden + k, dropped(&t->of_hidden, gelu(z), (at + i) * hidden + k));
      }
  apply(&work->last, &s->desk, s->y, s->g, m);
  EACH_GRAPH(chunk) {
    add_dropped(t->out + at * c, is.x + r * c, s->y + r * c, t->last.b, n, c, &t->of_nodes, at);
    memset(t->out + (at + n) * c, 0, FLOATS((chunk->in->n - n) * c));
  }
}

static void backward_chunk(const Thread *s, const Chunk *chunk) {
  const Work *work = s->work;
  const Step *t = work->step;
  const int64_t c = t->c, hidden = t->hidden, m = chunk->rows;
  const Kept was = kept_rows(s, chunk);
  EACH_GRAPH(chunk) {
    memcpy(s->d_x + r * c, t->d_out + at * c, FLOATS(n * c));
    drop_back(s->y + r * c, t->d_out + at * c, s->sums[LAST_B], n, c, &t->of_nodes, at);
    for (int64_t i = 0; i < n; i++)
      for (int64_t k = 0; k < hidden; k += L) {
        const int64_t x = (r + i) * hidden + k;
        const V z = load(was.a + x), of_x = dropped(&t->of_hidden, (V){} + 1.0f, (at + i) * hidden + k);
        const V below = 0.5f * (1.0f + error_function(z * 0.707106781f));
        store(s->g + x, of_x * z * below);
        store(s->slope + x, of_x * (below + z * density(z)));
      }
  }
  add_gradient(&work->last, &s->desk, s->sums[LAST], s->y, s->g, m);
  apply_back(&work->last, &s->desk, s->d_hidden, s->y, m);
  for (int64_t i = 0; i < m; i++)
    for (int64_t k = 0; k < hidden; k += L) {
      const int64_t x = i * hidden + k;
      const V d = load(s->d_hidden + x) * load(s->slope + x);
      store(s->d_hidden + x, d);
      store(s->sums[FIRST_B] + k, load(s->sums[FIRST_B] + k) + d);
    }
  normalize(s->normed, was.x, m, c, &t->norm_x);
  add_gradient(&work->first, &s->desk, s->sums[FIRST], s->d_hidden, s->normed, m);
  apply_back(&work->first, &s->desk, s->d_y, s->d_hidden, m);
  normalize_back(s->d_x, s->d_y, was.x, m, c, &t->norm_x, s->sums[NORM_X_W], s->sums[NORM_X_B]);
  EACH_GRAPH(chunk) drop_back(s->y + r * c, s->d_x + r * c, s->sums[O_B], n, c, &t->of_edges, at);
  add_gradient(&work->o, &s->desk, s->sums[O], s->y, was.o, m);
  apply_back(&work->o, &s->desk, s->d_y, s->y, m);
  Task attention = t->attention;
  attention.packed = was.packed, attention.dy = s->d_y, attention.d_packed = s->d_packed;
  EACH_GRAPH(chunk) {
    Block block = {chunk->in, g, n, r, 0, 0};
    attend_back(&attention, &block, &s->space);
    no_edges_beyond(&attention, &block);
    normalize(s->normed + r * c, t->v + at * c, n, c, &t->norm_v);
  }
  add_gradient(&work->qkv, &s->desk, s->sums[QKV], s->d_packed, s->normed, m);
  apply_back(&work->qkv, &s->desk, s->d_y, s->d_packed, m);
  EACH_GRAPH(chunk) {
    float *d_v = t->d_v + at * c;
    memcpy(d_v, s->d_x + r * c, FLOATS(n * c));
    normalize_back(d_v, s->d_y + r * c, t->v + at * c, n, c, &t->norm_v, s->sums[NORM_V_W], s->sums[NORM_V_B]);
    memset(d_v + n * c, 0, FLOATS((chunk->in->n - n) * c));
  }
}

static void *of_thread(void *thread) {
  const Thread *s = thread;
  if (s->work->units) units_on();
  begin(&s->work->step->attention, &s->space);
  for (int64_t i = s->from; i < s->to; i++)
    (s->work->backward ? backward_chunk : forward_chunk)(s, s->work->chunks + i);
  if (s->work->units) units_off();
  return NULL;
}

/* All graphs in chunks, in order, to `chunks`, or NULL to count only: how many; the rows of all, each rounded up. */
static int64_t cut(const Task *t, Chunk *chunks, int64_t *rows, int64_t *most, int64_t *largest) {
  int64_t count = 0;
  *rows = *most = *largest = 0;
  for (const Graphs *in = t->graphs; in < t->graphs + t->count; in++)
    for (int64_t g = 0; g < in->count;) {
      Chunk chunk = {in, g, 0, 0, *rows};
      for (; g < in->count && (!chunk.count || chunk.rows + nodes_of(in, g) <= ENOUGH); g++, chunk.count++) {
        const int64_t n = nodes_of(in, g);
        chunk.rows += n;
        if (n > *largest) *largest = n;
      }
      if (chunks) chunks[count] = chunk;
      if (chunk.rows > *most) *most = chunk.rows;
      *rows += up(chunk.rows, ROWS_UP);
      count++;
    }
  return count;
}

/* The space of a thread from `at` on, or NULL to count only: how many floats. The first thread's sums are the result. */
static int64_t furnish(Thread *s, float *at, const Work *work, int64_t most, int64_t largest, int first) {
  const Step *t = work->step;
  const int64_t c = t->c, w = width(t), hidden = t->hidden, m = up(most, ROWS_UP), wider = w > c ? w : c;
  const int back = work->backward, own = !back && !t->kept, extra = back && !first;
  const int64_t columns = 3 * w > hidden ? (3 * w > c ? 3 * w : c) : hidden > c ? hidden : c;
  const int64_t tiles = work->units ? (int64_t)desk_tiles(m, columns) * (int64_t)(sizeof(Tile) / sizeof(float)) : 0;
  const struct {
    float **to;
    int64_t count;
  } parts[] = {
      {(float **)&s->desk.a, tiles},
      {(float **)&s->desk.b, back ? tiles : 0},
      {&s->packed, own * m * 3 * w},
      {&s->o, own * m * w},
      {&s->x, own * m * c},
      {&s->a, own * m * hidden},
      {&s->normed, m * c},
      {&s->y, m * c},
      {&s->g, m * hidden},
      {&s->slope, back * m * hidden},
      {&s->d_packed, back * m * 3 * w},
      {&s->d_hidden, back * m * hidden},
      {&s->d_x, back * m * c},
      {&s->d_y, back * m * wider},
  };
  float *const result[SUMS] = {t->qkv.d_w,    t->o.d_w,      t->first.d_w,  t->last.d_w, t->norm_v.d_w, t->norm_v.d_b,
                               t->norm_x.d_w, t->norm_x.d_b, t->o.d_b,      t->first.d_b, t->last.d_b};
  int64_t used = 0;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (at) *parts[i].to = at + used;
    used += up(parts[i].count, 16);
  }
  for (int i = 0; i < SUMS && extra; i++) {
    if (at) s->sums[i] = at + used;
    used += up(size_of_sum(t, i), 16);
  }
  used += up(take(&s->space, at ? at + used : NULL, &t->attention, largest), 16);
  if (!at) return used;
  for (int i = 0; i < SUMS && back; i++) {
    if (first) s->sums[i] = result[i];
    memset(s->sums[i], 0, FLOATS(size_of_sum(t, i)));
  }
  return used;
}

/* Returns 0, or 1 without memory. */
static int in_chunks(const Step *t, int threads, int backward) {
  const int64_t c = t->c, w = width(t), hidden = t->hidden;
  int64_t rows, most, largest;
  const int64_t count = cut(&t->attention, NULL, &rows, &most, &largest);
  const int units = !t->plain && !(c % DEPTH || w % DEPTH || hidden % DEPTH) && has_units();
  Work work = {t, backward, units, NULL, {c, 3 * w, t->qkv.w, 0, 0, 0}, {w, c, t->o.w, 0, 0, 0},
               {c, hidden, t->first.w, 0, 0, 0}, {hidden, c, t->last.w, 0, 0, 0}};
  Weights *const weights[] = {&work.qkv, &work.o, &work.first, &work.last};
  int64_t of_weights = 0, of_first, of_other;
  for (int i = 0; i < 4; i++) of_weights += weights_space(weights[i]->in, weights[i]->out, units, backward);
  if (threads < 1 || rows * c < 32768) threads = 1;
  if (threads > count) threads = count ? (int)count : 1;
  Thread counted;
  of_first = furnish(&counted, NULL, &work, most, largest, 1);
  of_other = furnish(&counted, NULL, &work, most, largest, 0);
  Chunk *chunks = calloc(count + 1, sizeof(Chunk));
  Thread *all = calloc(threads, sizeof(Thread));
  const Space **spaces = calloc(threads, sizeof(Space *));
  pthread_t *ids = calloc(threads, sizeof(pthread_t));
  float *space = aligned_alloc(64, up(FLOATS(of_weights + of_first + (threads - 1) * of_other) + 64, 64));
  if (!chunks || !all || !spaces || !ids || !space) {
    free(chunks), free(all), free(spaces), free(ids), free(space);
    return 1;
  }
  cut(&t->attention, chunks, &rows, &most, &largest);
  work.chunks = chunks;
  float *at = space;
  for (int i = 0; i < 4; i++) {
    prepare(weights[i], at, units, backward);
    at += weights_space(weights[i]->in, weights[i]->out, units, backward);
  }
  int64_t done = 0, part = 0;
  for (int i = 0; i < threads; i++) {
    all[i].work = &work, all[i].desk.units = units;
    at += furnish(&all[i], at, &work, most, largest, i == 0);
    spaces[i] = &all[i].space;
    all[i].from = part;
    for (; part < count && (i == threads - 1 || done < rows * (i + 1) / threads); part++)
      done += up(chunks[part].rows, ROWS_UP);
    all[i].to = part;
  }
  int started = 1;
  for (; started < threads; started++)
    if (pthread_create(&ids[started], NULL, of_thread, &all[started])) break;
  of_thread(&all[0]);
  for (int i = started; i < threads; i++) of_thread(&all[i]); /* no more threads to be had */
  for (int i = 1; i < started; i++) pthread_join(ids[i], NULL);
  if (backward) {
    add_up(&t->attention, spaces, threads);
    for (int i = 1; i < threads; i++)
      for (int k = 0; k < SUMS; k++)
        for (int64_t x = 0; x < size_of_sum(t, k); x++) all[0].sums[k][x] += all[i].sums[k][x];
  }
  free(chunks), free(all), free(spaces), free(ids), free(space);
  return 0;
}

/* How many floats `kept` has to hold. */
int64_t molattn_block_kept(const Step *t) {
  int64_t rows, most, largest;
  cut(&t->attention, NULL, &rows, &most, &largest);
  return rows * kept_of_row(t);
}

int molattn_block_forward(const Step *t, int threads) { return in_chunks(t, threads, 0); }
int molattn_block_backward(const Step *t, int threads) { return in_chunks(t, threads, 1); }
