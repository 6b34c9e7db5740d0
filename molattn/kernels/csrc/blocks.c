/* The blocks of the default model, one after another, forward and backward, some graphs at a time in a core's own cache.
 *
 * The equations are those of molattn/graph/block.py, edge_update.py and updates.py:
 *
 *     packed = norm_v(v) W_qkv^T
 *     o      = attention of packed to the edges          edge_attention.c
 *     x      = v + drop(o W_o^T + b_o)
 *     a      = norm_x(x) W_1^T + b_1
 *     v'     = x + drop(drop(gelu(a)) W_2^T + b_2)
 *
 * A few graphs make some hundred rows; these go through all blocks before the next graphs are begun, without their
 * padding. For the gradient v, packed, o, x and a of every block are kept. */

#include <math.h>

#include "matrices.h"
#include "edge_attention.c"

/* molattn.kernels.blocks: the classes of these names. */
typedef struct {
  const float *w, *b; /* (c,) */
  float *d_w, *d_b;
  float eps;
} Norm;
LAYOUT(Norm, FIELD(Norm, w) FIELD(Norm, b) FIELD(Norm, d_w) FIELD(Norm, d_b) FIELD(Norm, eps));
typedef struct {
  const float *w, *b; /* (out, in), (out,) */
  float *d_w, *d_b;
} Linear;
LAYOUT(Linear, FIELD(Linear, w) FIELD(Linear, b) FIELD(Linear, d_w) FIELD(Linear, d_b));
typedef struct {
  Norm norm_v, norm_x;
  Linear qkv, o, first, last;            /* qkv without b */
  const float *w_ke, *w_ve, *w_be;       /* as those of Task */
  float *d_w_ke, *d_w_ve, *d_w_be;
  Dropping of_weights, of_edges, of_hidden, of_nodes;
} Layer;
LAYOUT(Layer, FIELD(Layer, norm_v) FIELD(Layer, norm_x) FIELD(Layer, qkv) FIELD(Layer, o) FIELD(Layer, first)
       FIELD(Layer, last) FIELD(Layer, w_ke) FIELD(Layer, w_ve) FIELD(Layer, w_be) FIELD(Layer, d_w_ke)
       FIELD(Layer, d_w_ve) FIELD(Layer, d_w_be) FIELD(Layer, of_weights) FIELD(Layer, of_edges)
       FIELD(Layer, of_hidden) FIELD(Layer, of_nodes));
typedef struct {
  int64_t rows, c, hidden, plain, count; /* with padding; of a node; inside a feed-forward step; without units; blocks */
  Task attention;                        /* but q, k, v, output, matrices, dropout and their gradients */
  const Layer *layers;
  const float *v;                        /* (rows, c) */
  float *out;                            /* (rows, c) */
  float *kept;                           /* what `molattn_blocks_kept` counts; NULL where no gradient will be asked for */
  const float *d_out;                    /* (rows, c) */
  float *d_v;                            /* (rows, c) */
} Stack;
LAYOUT(Stack, FIELD(Stack, rows) FIELD(Stack, c) FIELD(Stack, hidden) FIELD(Stack, plain) FIELD(Stack, count)
       FIELD(Stack, attention) FIELD(Stack, layers) FIELD(Stack, v) FIELD(Stack, out) FIELD(Stack, kept)
       FIELD(Stack, d_out) FIELD(Stack, d_v));

enum { ENOUGH = 96 }; /* rows of a chunk: its numbers stay in the second level of a cache */

/* Consecutive graphs; their rows without padding; the rows of the chunks before, rounded up. */
typedef struct {
  const Graphs *in;
  int64_t first, count, rows, before;
} Chunk;

/* Gradients of a block that are sums over all rows; the first four as its weights. */
enum { QKV, O, FIRST, LAST, NORM_V_W, NORM_V_B, NORM_X_W, NORM_X_B, O_B, FIRST_B, LAST_B, SUMS };

/* What the threads of a call have in common. */
typedef struct {
  const Stack *stack;
  int backward, units;
  const Chunk *chunks;
  Weights (*weights)[4]; /* of each block: qkv, o, first, last */
} Work;

/* A thread, and what it works in: matrices of the rows of a chunk, with c or as many columns as stand behind. */
typedef struct {
  const Work *work;
  int64_t from, to; /* chunks */
  Desk desk;
  Space *spaces;                 /* of each block: all but its matrices they share */
  float *(*sums)[SUMS];          /* of each block */
  float *v, *packed, *o, *x, *a; /* c, 3w, w, c, hidden: where they are not kept */
  float *normed, *y, *g, *slope, *d_packed, *d_hidden, *d_x, *d_y; /* c, c, hidden, hidden, 3w, hidden, c, c or w */
} Thread;

INLINE int64_t width(const Stack *t) { return t->attention.h * t->attention.d; }

/* Queries, keys and values of rows in which they stand side by side, (3, h, d). */
INLINE void read_packed(Task *attention, const float *packed) {
  const int64_t w = attention->h * attention->d;
  attention->q = packed, attention->k = packed + w, attention->v = packed + 2 * w, attention->stride = 3 * w;
}
INLINE int64_t kept_of_row(const Stack *t) { return 4 * width(t) + 2 * t->c + t->hidden; } /* in a block */

INLINE int64_t size_of_sum(const Stack *t, int sum) {
  return sum == QKV                   ? 3 * width(t) * t->c
         : sum == O                   ? width(t) * t->c
         : sum == FIRST || sum == LAST ? t->hidden * t->c
         : sum == FIRST_B             ? t->hidden
                                      : t->c;
}

/* For every graph g of a chunk: its n nodes are the rows r, r + 1, ... of the chunk, and `at`, ... of the tensors. */
#define EACH_GRAPH(chunk)                                                                                      \
  for (int64_t g = (chunk)->first, r = 0, n = 0, at = g * (chunk)->in->n;                                      \
       g < (chunk)->first + (chunk)->count && (n = nodes_of((chunk)->in, g), 1);                               \
       g++, r += n, at += (chunk)->in->n)

/* The sum of a vector's numbers, in all of its lanes. */
#define OTHER(l, s) ((l) ^ (s))
INLINE V total(V x) {
#if L == 16
  x += SHUFFLED(x, x, EACH(OTHER, 8));
#endif
  x += SHUFFLED(x, x, EACH(OTHER, 4));
  x += SHUFFLED(x, x, EACH(OTHER, 2));
  x += SHUFFLED(x, x, EACH(OTHER, 1));
  return x;
}

INLINE V roots(V x) {
  V y;
  for (int l = 0; l < L; l++) y[l] = sqrtf(x[l]);
  return y;
}

/* The mean of a row and one over its standard deviation. */
INLINE void moments(const float *x, int64_t c, float eps, V *mean, V *rate) {
  V sum = {}, squares = {};
  for (int64_t k = 0; k < c; k += L) sum += load(x + k);
  *mean = total(sum) / (float)c;
  for (int64_t k = 0; k < c; k += L) {
    const V apart = load(x + k) - *mean;
    squares += apart * apart;
  }
  *rate = 1.0f / roots(total(squares) / (float)c + eps);
}

/* y = (x - mean) / std * w + b, of m rows. */
static void normalize(float *y, const float *x, int64_t m, int64_t c, const Norm *norm) {
  for (int64_t r = 0; r < m; r++, x += c, y += c) {
    V mean, rate;
    moments(x, c, norm->eps, &mean, &rate);
    for (int64_t k = 0; k < c; k += L)
      store(y + k, (load(x + k) - mean) * rate * load(norm->w + k) + load(norm->b + k));
  }
}

/* dx += dL/dx, d_w += dL/dw and d_b += dL/db of `normalize`. */
static void normalize_back(float *dx, const float *dy, const float *x, int64_t m, int64_t c, const Norm *norm,
                           float *d_w, float *d_b) {
  for (int64_t r = 0; r < m; r++, x += c, dy += c, dx += c) {
    V mean, rate, sum = {}, along = {};
    moments(x, c, norm->eps, &mean, &rate);
    for (int64_t k = 0; k < c; k += L) {
      const V g = load(dy + k), z = (load(x + k) - mean) * rate, gw = g * load(norm->w + k);
      store(d_w + k, load(d_w + k) + g * z);
      store(d_b + k, load(d_b + k) + g);
      sum += gw;
      along += gw * z;
    }
    const V of_mean = total(sum) / (float)c, of_rate = total(along) / (float)c;
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
  float *v, *packed, *o, *x, *a;
} Kept;

static Kept kept_rows(const Thread *s, const Chunk *chunk, int64_t l) {
  const Stack *t = s->work->stack;
  const int64_t c = t->c, w = width(t), m = up(chunk->rows, ROWS_UP);
  if (!t->kept) return (Kept){s->v, s->packed, s->o, s->x, s->a};
  float *at = t->kept + (chunk->before * t->count + l * m) * kept_of_row(t);
  return (Kept){at, at + m * c, at + m * (c + 3 * w), at + m * (c + 4 * w), at + m * (2 * c + 4 * w)};
}

/* The attention of a block. */
static Task attention_of(const Stack *t, int64_t l) {
  const Layer *of = t->layers + l;
  Task task = t->attention;
  task.w_ke = of->w_ke, task.w_ve = of->w_ve, task.w_be = of->w_be;
  task.d_w_ke = of->d_w_ke, task.d_w_ve = of->d_w_ve, task.d_w_be = of->d_w_be;
  task.dropping = of->of_weights.threshold ? &of->of_weights : NULL;
  task.add_edges = l < t->count - 1;
  return task;
}

static void forward_chunk(const Thread *s, const Chunk *chunk) {
  const Stack *t = s->work->stack;
  const int64_t c = t->c, hidden = t->hidden, m = chunk->rows;
  EACH_GRAPH(chunk) memcpy(kept_rows(s, chunk, 0).v + r * c, t->v + at * c, FLOATS(n * c));
  for (int64_t l = 0; l < t->count; l++) {
    const Layer *of = t->layers + l;
    const Weights *weights = s->work->weights[l];
    const Kept is = kept_rows(s, chunk, l);
    float *out = l + 1 < t->count ? kept_rows(s, chunk, l + 1).v : s->y;
    normalize(s->normed, is.v, m, c, &of->norm_v);
    apply(weights + QKV, &s->desk, is.packed, s->normed, m);
    Task attention = attention_of(t, l);
    read_packed(&attention, is.packed), attention.output = is.o;
    EACH_GRAPH(chunk) {
      Block block = {chunk->in, g, n, r, 0, 0};
      attend(&attention, &block, s->spaces + l);
    }
    apply(weights + O, &s->desk, s->y, is.o, m);
    EACH_GRAPH(chunk) add_dropped(is.x + r * c, is.v + r * c, s->y + r * c, of->o.b, n, c, &of->of_edges, at);
    normalize(s->normed, is.x, m, c, &of->norm_x);
    apply(weights + FIRST, &s->desk, is.a, s->normed, m);
    EACH_GRAPH(chunk)
      for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < hidden; k += L) {
          float *a = is.a + (r + i) * hidden + k;
          const V z = load(a) + load(of->first.b + k);
          store(a, z);
          store(s->g + (r + i) * hidden + k, dropped(&of->of_hidden, gelu(z), (at + i) * hidden + k));
        }
    apply(weights + LAST, &s->desk, s->y, s->g, m);
    EACH_GRAPH(chunk) add_dropped(out + r * c, is.x + r * c, s->y + r * c, of->last.b, n, c, &of->of_nodes, at);
  }
  EACH_GRAPH(chunk) {
    memcpy(t->out + at * c, s->y + r * c, FLOATS(n * c));
    memset(t->out + (at + n) * c, 0, FLOATS((chunk->in->n - n) * c));
  }
}

static void backward_chunk(const Thread *s, const Chunk *chunk) {
  const Stack *t = s->work->stack;
  const int64_t c = t->c, w = width(t), hidden = t->hidden, m = chunk->rows;
  EACH_GRAPH(chunk) memcpy(s->d_x + r * c, t->d_out + at * c, FLOATS(n * c));
  for (int64_t l = t->count - 1; l >= 0; l--) {
    const Layer *of = t->layers + l;
    const Weights *weights = s->work->weights[l];
    const Kept was = kept_rows(s, chunk, l);
    float *const *sums = s->sums[l];
    EACH_GRAPH(chunk) {
      drop_back(s->y + r * c, s->d_x + r * c, sums[LAST_B], n, c, &of->of_nodes, at);
      for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < hidden; k += L) {
          const int64_t x = (r + i) * hidden + k;
          const V z = load(was.a + x), of_x = dropped(&of->of_hidden, (V){} + 1.0f, (at + i) * hidden + k);
          const V below = 0.5f * (1.0f + error_function(z * 0.707106781f));
          store(s->g + x, of_x * z * below);
          store(s->slope + x, of_x * (below + z * density(z)));
        }
    }
    add_gradient(weights + LAST, &s->desk, sums[LAST], s->y, s->g, m);
    apply_back(weights + LAST, &s->desk, s->d_hidden, s->y, m);
    for (int64_t i = 0; i < m; i++)
      for (int64_t k = 0; k < hidden; k += L) {
        const int64_t x = i * hidden + k;
        const V d = load(s->d_hidden + x) * load(s->slope + x);
        store(s->d_hidden + x, d);
        store(sums[FIRST_B] + k, load(sums[FIRST_B] + k) + d);
      }
    normalize(s->normed, was.x, m, c, &of->norm_x);
    add_gradient(weights + FIRST, &s->desk, sums[FIRST], s->d_hidden, s->normed, m);
    apply_back(weights + FIRST, &s->desk, s->d_y, s->d_hidden, m);
    normalize_back(s->d_x, s->d_y, was.x, m, c, &of->norm_x, sums[NORM_X_W], sums[NORM_X_B]);
    EACH_GRAPH(chunk) drop_back(s->y + r * c, s->d_x + r * c, sums[O_B], n, c, &of->of_edges, at);
    add_gradient(weights + O, &s->desk, sums[O], s->y, was.o, m);
    apply_back(weights + O, &s->desk, s->d_y, s->y, m);
    Task attention = attention_of(t, l);
    read_packed(&attention, was.packed), attention.dy = s->d_y;
    attention.d_q = s->d_packed, attention.d_k = attention.d_q + w, attention.d_v = attention.d_k + w;
    attention.d_stride = 3 * w;
    EACH_GRAPH(chunk) {
      Block block = {chunk->in, g, n, r, 0, 0};
      attend_back(&attention, &block, s->spaces + l);
      if (!attention.add_edges) no_edges_beyond(&attention, &block);
    }
    normalize(s->normed, was.v, m, c, &of->norm_v);
    add_gradient(weights + QKV, &s->desk, sums[QKV], s->d_packed, s->normed, m);
    apply_back(weights + QKV, &s->desk, s->d_y, s->d_packed, m);
    normalize_back(s->d_x, s->d_y, was.v, m, c, &of->norm_v, sums[NORM_V_W], sums[NORM_V_B]);
  }
  EACH_GRAPH(chunk) {
    memcpy(t->d_v + at * c, s->d_x + r * c, FLOATS(n * c));
    memset(t->d_v + (at + n) * c, 0, FLOATS((chunk->in->n - n) * c));
  }
}

static void *of_thread(void *thread) {
  const Thread *s = thread;
  const Stack *t = s->work->stack;
  if (s->work->units) units_on();
  for (int64_t l = 0; l < t->count; l++) {
    const Task attention = attention_of(t, l);
    begin(&attention, s->spaces + l);
  }
  for (int64_t i = s->from; i < s->to; i++)
    (s->work->backward ? backward_chunk : forward_chunk)(s, s->work->chunks + i);
  if (s->work->units) units_off();
  return NULL;
}

/* All graphs in chunks, in order, to `chunks`, or NULL to count only: how many; the rows of all, each rounded up. */
static int64_t cut(const Task *t, Chunk *chunks, int64_t *rows, int64_t *most, int64_t *largest) {
  const Graphs *in = t->graphs;
  int64_t count = 0;
  *rows = *most = *largest = 0;
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
  const Stack *t = work->stack;
  const int64_t c = t->c, w = width(t), hidden = t->hidden, m = up(most, ROWS_UP), wider = w > c ? w : c;
  const int back = work->backward, own = !back && !t->kept;
  const int64_t columns = 3 * w > hidden ? (3 * w > c ? 3 * w : c) : hidden > c ? hidden : c;
  const int64_t tiles = work->units ? (int64_t)desk_tiles(m, columns) * (int64_t)(sizeof(Tile) / sizeof(float)) : 0;
  Space space = {0};
  const Room rooms[] = {
      {(float **)&s->desk.a, tiles},
      {(float **)&s->desk.b, back ? tiles : 0},
      {&s->v, own * m * c},
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
  int64_t used = MAKE_ROOM(at, rooms);
  used += take_rest(&space, at ? at + used : NULL, &t->attention, largest);
  for (int64_t i = 0; i < t->attention.tables && back; i++) {
    const int64_t size = t->attention.num_rows[i] * t->attention.f;
    if (at) {
      space.d_rows[i] = first ? t->attention.d_rows[i] : at + used;
      memset(space.d_rows[i], 0, FLOATS(size));
    }
    used += first ? 0 : up(size, 16);
  }
  for (int64_t l = 0; l < t->count; l++) {
    const Layer *of = t->layers + l;
    const Task attention = attention_of(t, l);
    float *const result[SUMS] = {of->qkv.d_w,    of->o.d_w,      of->first.d_w, of->last.d_w,
                                 of->norm_v.d_w, of->norm_v.d_b, of->norm_x.d_w, of->norm_x.d_b,
                                 of->o.d_b,      of->first.d_b,  of->last.d_b};
    if (at) s->spaces[l] = space;
    used += take_sums(at ? s->spaces + l : &space, at ? at + used : NULL, &attention);
    for (int i = 0; i < SUMS && back; i++) {
      if (at) {
        s->sums[l][i] = first ? result[i] : at + used;
        memset(s->sums[l][i], 0, FLOATS(size_of_sum(t, i)));
      }
      used += first ? 0 : up(size_of_sum(t, i), 16);
    }
  }
  return used;
}

/* Whether every graph has as many nodes as there is room for at most. */
static int counts_are_known(const Task *t) {
  const Graphs *in = t->graphs;
  for (int64_t g = 0; g < in->count && in->sizes; g++)
    if (in->sizes[g] < 0 || in->sizes[g] > in->n) return 0;
  return 1;
}

/* Whether all codes of edges are those of rows that there are. */
static int codes_are_known(const Task *t) {
  const Graphs *in = t->graphs;
  for (int64_t table = 0; table < t->tables; table++)
    for (int64_t g = 0; g < in->count && t->num_rows[table] < 256; g++)
      for (int64_t i = 0, n = nodes_of(in, g); i < n; i++) {
        const uint8_t *codes = in->edge_codes[table] + (g * in->n + i) * in->n;
        uint8_t largest = 0;
        for (int64_t j = 0; j < n; j++) largest = codes[j] > largest ? codes[j] : largest;
        if (largest >= t->num_rows[table]) return 0;
      }
  return 1;
}

/* Returns 0, 1 without memory, 2 where an edge has a code without a row, or 3 where a graph has more nodes than places. */
static int in_chunks(const Stack *t, int threads, int backward) {
  const int64_t c = t->c, w = width(t), hidden = t->hidden;
  const int units = !t->plain && !(c % DEPTH || w % DEPTH || hidden % DEPTH) && has_units();
  int64_t rows, most, largest;
  if (!counts_are_known(&t->attention)) return 3;
  if (!codes_are_known(&t->attention)) return 2;
  const int64_t count = cut(&t->attention, NULL, &rows, &most, &largest);
  if (threads < 1 || rows * c < 32768) threads = 1;
  if (threads > count) threads = count ? (int)count : 1;
  Work work = {t, backward, units, NULL, NULL};
  Thread counted;
  const int64_t of_first = furnish(&counted, NULL, &work, most, largest, 1);
  const int64_t of_other = furnish(&counted, NULL, &work, most, largest, 0);
  const int64_t of_weights = weights_space(c, 3 * w, units, backward) + weights_space(w, c, units, backward) +
                             weights_space(c, hidden, units, backward) + weights_space(hidden, c, units, backward);
  Chunk *chunks = calloc(count + 1, sizeof(Chunk));
  Weights(*weights)[4] = calloc(t->count + 1, sizeof *weights);
  Thread *all = calloc(threads, sizeof(Thread));
  Space *spaces = calloc(threads * t->count + 1, sizeof(Space));
  float *(*sums)[SUMS] = calloc(threads * t->count + 1, sizeof *sums);
  const Space **of_block = calloc(threads, sizeof(Space *));
  pthread_t *ids = calloc(threads, sizeof(pthread_t));
  float *space = aligned_alloc(64, up(FLOATS(of_weights * t->count + of_first + (threads - 1) * of_other) + 64, 64));
  const int enough = chunks && weights && all && spaces && sums && of_block && ids && space;
  if (enough) {
    cut(&t->attention, chunks, &rows, &most, &largest);
    work.chunks = chunks, work.weights = weights;
    float *at = space;
    for (int64_t l = 0; l < t->count; l++) {
      const Layer *of = t->layers + l;
      const Weights four[4] = {{c, 3 * w, of->qkv.w, 0, 0, 0}, {w, c, of->o.w, 0, 0, 0},
                               {c, hidden, of->first.w, 0, 0, 0}, {hidden, c, of->last.w, 0, 0, 0}};
      for (int i = 0; i < 4; i++) {
        weights[l][i] = four[i];
        prepare(&weights[l][i], at, units, backward);
        at += weights_space(four[i].in, four[i].out, units, backward);
      }
    }
    int64_t done = 0, part = 0;
    for (int i = 0; i < threads; i++) {
      all[i].work = &work, all[i].desk.units = units;
      all[i].spaces = spaces + i * t->count, all[i].sums = sums + i * t->count;
      at += furnish(&all[i], at, &work, most, largest, i == 0);
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
    for (int64_t l = 0; l < t->count && backward; l++) {
      const Task attention = attention_of(t, l);
      for (int i = 0; i < threads; i++) of_block[i] = all[i].spaces + l;
      add_up(&attention, of_block, threads);
      for (int i = 1; i < threads; i++)
        for (int k = 0; k < SUMS; k++)
          for (int64_t x = 0; x < size_of_sum(t, k); x++) all[0].sums[l][k][x] += all[i].sums[l][k][x];
    }
    for (int64_t k = 0; k < t->attention.tables && backward; k++)
      for (int i = 1; i < threads; i++)
        for (int64_t x = 0; x < t->attention.num_rows[k] * t->attention.f; x++)
          all[0].spaces->d_rows[k][x] += all[i].spaces->d_rows[k][x];
  }
  free(chunks), free(weights), free(all), free(spaces), free(sums), free(of_block), free(ids), free(space);
  return !enough;
}

/* How many floats `kept` has to hold; -1 where a graph has more nodes than places. */
int64_t molattn_blocks_kept(const Stack *t) {
  if (!counts_are_known(&t->attention)) return -1;
  int64_t rows, most, largest;
  cut(&t->attention, NULL, &rows, &most, &largest);
  return rows * t->count * kept_of_row(t);
}

int molattn_blocks_forward(const Stack *t, int threads) { return in_chunks(t, threads, 0); }
int molattn_blocks_backward(const Stack *t, int threads) { return in_chunks(t, threads, 1); }
