/* The blocks of the default model in sequence, forward and backward, a few graphs at a time in the cache of a core.
 *
 * The equations are those of molattn/graph/block.py, edge_update.py and updates.py:
 *
 *     qkv = norm_v(v) W_qkv^T                            queries, keys and values: rows of (3, h, d)
 *     o   = attention(q, k, v, edges)                    edge_attention.c
 *     x   = v + dropout(o W_o^T + b_o)
 *     a   = norm_x(x) W_1^T + b_1
 *     v'  = x + dropout(dropout(gelu(a)) W_2^T + b_2)
 *
 * W_1 and W_2 are called first and last. A chunk of graphs of about a hundred rows, without padding, passes through all
 * blocks before the next chunk does. For the gradient, v, qkv, o, x and a of every block are saved. */

#include <math.h>

#include "matrices.h"
#include "edge_attention.c"

/* The structs that molattn.kernels.block_library declares with an underscore: _Norm, _Linear, _Layer and _Stack. */
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
  Linear qkv, o, first, last;      /* qkv has no bias, b = NULL */
  const float *w_ke, *w_ve, *w_be; /* as in AttentionTask */
  float *d_w_ke, *d_w_ve, *d_w_be;
  Dropout weights_dropout, edges_dropout, hidden_dropout, nodes_dropout; /* of attention weights, o W_o^T + b_o,
                                                                            gelu(a), and gelu(a) W_2^T + b_2 */
} Layer; /* the weights of a block */
LAYOUT(Layer, FIELD(Layer, norm_v) FIELD(Layer, norm_x) FIELD(Layer, qkv) FIELD(Layer, o) FIELD(Layer, first)
       FIELD(Layer, last) FIELD(Layer, w_ke) FIELD(Layer, w_ve) FIELD(Layer, w_be) FIELD(Layer, d_w_ke)
       FIELD(Layer, d_w_ve) FIELD(Layer, d_w_be) FIELD(Layer, weights_dropout) FIELD(Layer, edges_dropout)
       FIELD(Layer, hidden_dropout) FIELD(Layer, nodes_dropout));
typedef struct {
  int64_t rows;              /* nodes of all graphs, with padding */
  int64_t c, hidden;         /* channels of a node, and inside the feed-forward network */
  int64_t highest_precision; /* whether products must have the precision of float32, without AMX */
  int64_t count;             /* number of blocks */
  AttentionTask attention;   /* without q, k, v, output, weight matrices, dropout and the gradients of these */
  const Layer *layers;
  const float *v;            /* (rows, c) */
  float *out;                /* (rows, c) */
  float *saved;              /* (molattn_blocks_saved_size,) activations for backward; NULL without gradients */
  const float *d_out;        /* (rows, c) */
  float *d_v;                /* (rows, c) */
} Stack;
LAYOUT(Stack, FIELD(Stack, rows) FIELD(Stack, c) FIELD(Stack, hidden) FIELD(Stack, highest_precision)
       FIELD(Stack, count) FIELD(Stack, attention) FIELD(Stack, layers) FIELD(Stack, v) FIELD(Stack, out)
       FIELD(Stack, saved) FIELD(Stack, d_out) FIELD(Stack, d_v));

enum { CHUNK_ROWS = 96 }; /* the most rows of a chunk of several graphs, so that it fits into the L2 cache */

/* Consecutive graphs. */
typedef struct {
  const Graphs *graphs;
  int64_t first, count; /* graphs */
  int64_t rows;         /* without padding */
  int64_t row_offset;   /* rows of the previous chunks, each rounded up */
} Chunk;

/* The gradients of the weights of a block, which are sums over all rows; the first four as in Shared.weights. */
enum { QKV, O, FIRST, LAST, NORM_V_W, NORM_V_B, NORM_X_W, NORM_X_B, O_B, FIRST_B, LAST_B, NUM_SUMS };

/* The state that all threads of a call share. */
typedef struct {
  const Stack *stack;
  int backward, use_amx;
  const Chunk *chunks;
  Weights (*weights)[4]; /* of each block: qkv, o, first, last */
} Shared;

/* A thread and its buffers: matrices of the rows of a chunk, with the numbers of columns given in the comments. */
typedef struct {
  const Shared *shared;
  int64_t from, to; /* chunks */
  Workspace workspace;
  Scratch *scratch;              /* of each block; blocks share all of it but the buffers of the weight matrices */
  float *(*sums)[NUM_SUMS];      /* of each block */
  float *v, *qkv, *o, *x, *a; /* c, 3w, w, c, hidden: used if activations are not saved */
  float *normalized, *y, *g, *gelu_slope; /* c, c, hidden, hidden */
  float *d_qkv, *d_hidden, *d_x, *d_y; /* 3w, hidden, c, c or w */
} Thread;

INLINE int64_t width(const Stack *t) { return t->attention.h * t->attention.d; }

/* Sets q, k and v to the parts of rows of (3, h, d). */
INLINE void set_qkv(AttentionTask *attention, const float *qkv) {
  const int64_t w = attention->h * attention->d;
  attention->q = qkv, attention->k = qkv + w, attention->v = qkv + 2 * w, attention->stride = 3 * w;
}

/* The floats that a block saves per row. */
INLINE int64_t saved_per_row(const Stack *t) { return 4 * width(t) + 2 * t->c + t->hidden; }

INLINE int64_t sum_size(const Stack *t, int sum) {
  return sum == QKV                   ? 3 * width(t) * t->c
         : sum == O                   ? width(t) * t->c
         : sum == FIRST || sum == LAST ? t->hidden * t->c
         : sum == FIRST_B             ? t->hidden
                                      : t->c;
}

/* Loops over the graphs g of a chunk. The n nodes of a graph are the rows r, r + 1, ... of the chunk, and the rows at,
 * at + 1, ... of the tensors with padding. */
#define EACH_GRAPH(chunk)                                                            \
  for (int64_t g = (chunk)->first, r = 0, n = 0, at = g * (chunk)->graphs->n;        \
       g < (chunk)->first + (chunk)->count && (n = num_nodes((chunk)->graphs, g), 1); \
       g++, r += n, at += (chunk)->graphs->n)

/* The sum over the lanes of a vector, in every lane. */
#define PARTNER(l, s) ((l) ^ (s))
INLINE V lane_sum(V x) {
#if L == 16
  x += SHUFFLE(x, x, EACH(PARTNER, 8));
#endif
  x += SHUFFLE(x, x, EACH(PARTNER, 4));
  x += SHUFFLE(x, x, EACH(PARTNER, 2));
  x += SHUFFLE(x, x, EACH(PARTNER, 1));
  return x;
}

INLINE V square_roots(V x) {
  V y;
  for (int l = 0; l < L; l++) y[l] = sqrtf(x[l]);
  return y;
}

/* The mean of a row and the inverse of its standard deviation. */
INLINE void moments(const float *x, int64_t c, float eps, V *mean, V *inverse_std) {
  V sum = {}, squares = {};
  for (int64_t k = 0; k < c; k += L) sum += load(x + k);
  *mean = lane_sum(sum) / (float)c;
  for (int64_t k = 0; k < c; k += L) {
    const V deviation = load(x + k) - *mean;
    squares += deviation * deviation;
  }
  *inverse_std = 1.0f / square_roots(lane_sum(squares) / (float)c + eps);
}

/* y = (x - mean) / std * w + b, of m rows. */
static void layer_norm(float *y, const float *x, int64_t m, int64_t c, const Norm *norm) {
  for (int64_t r = 0; r < m; r++, x += c, y += c) {
    V mean, inverse_std;
    moments(x, c, norm->eps, &mean, &inverse_std);
    for (int64_t k = 0; k < c; k += L)
      store(y + k, (load(x + k) - mean) * inverse_std * load(norm->w + k) + load(norm->b + k));
  }
}

/* dx += dL/dx, d_w += dL/dw and d_b += dL/db of `layer_norm`. */
static void layer_norm_backward(float *dx, const float *dy, const float *x, int64_t m, int64_t c, const Norm *norm,
                                float *d_w, float *d_b) {
  for (int64_t r = 0; r < m; r++, x += c, dy += c, dx += c) {
    V mean, inverse_std, sum = {}, sum_z = {};
    moments(x, c, norm->eps, &mean, &inverse_std);
    for (int64_t k = 0; k < c; k += L) {
      const V g = load(dy + k), z = (load(x + k) - mean) * inverse_std, gw = g * load(norm->w + k);
      store(d_w + k, load(d_w + k) + g * z);
      store(d_b + k, load(d_b + k) + g);
      sum += gw;
      sum_z += gw * z;
    }
    const V mean_gradient = lane_sum(sum) / (float)c, std_gradient = lane_sum(sum_z) / (float)c;
    for (int64_t k = 0; k < c; k += L) {
      const V z = (load(x + k) - mean) * inverse_std;
      store(dx + k, load(dx + k) + inverse_std * (load(dy + k) * load(norm->w + k) - mean_gradient - z * std_gradient));
    }
  }
}

/* m x, with the dropout mask m, for the L elements from `index` on. */
INLINE V apply_dropout(const Dropout *m, V x, int64_t index) {
  if (m->threshold) x *= dropout_factor(m, lanes() + (uint32_t)index);
  return x;
}

/* y = a + m (z + b), for the rows of a graph, the first of which is row `at` of the tensor that m belongs to. */
static void add_dropout(float *y, const float *a, const float *z, const float *b, int64_t rows, int64_t c,
                        const Dropout *m, int64_t at) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < c; k += L) {
      const int64_t x = i * c + k;
      store(y + x, load(a + x) + apply_dropout(m, load(z + x) + load(b + k), at * c + x));
    }
}

/* y = m x, and d_b += the sum of y over rows, for the rows of a graph as in `add_dropout`. */
static void dropout_backward(float *y, const float *x, float *d_b, int64_t rows, int64_t c, const Dropout *m,
                             int64_t at) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < c; k += L) {
      const V z = apply_dropout(m, load(x + i * c + k), at * c + i * c + k);
      store(y + i * c + k, z);
      store(d_b + k, load(d_b + k) + z);
    }
}

typedef struct {
  float *v, *qkv, *o, *x, *a;
} Activations;

/* Where the activations of a chunk in block l are: in `saved`, or in the buffers of the thread. */
static Activations chunk_activations(const Thread *s, const Chunk *chunk, int64_t l) {
  const Stack *t = s->shared->stack;
  const int64_t c = t->c, w = width(t), m = round_up(chunk->rows, ROW_MULTIPLE);
  if (!t->saved) return (Activations){s->v, s->qkv, s->o, s->x, s->a};
  float *at = t->saved + (chunk->row_offset * t->count + l * m) * saved_per_row(t);
  return (Activations){at, at + m * c, at + m * (c + 3 * w), at + m * (c + 4 * w), at + m * (2 * c + 4 * w)};
}

/* The attention task of block l. */
static AttentionTask layer_attention(const Stack *t, int64_t l) {
  const Layer *layer = t->layers + l;
  AttentionTask task = t->attention;
  task.w_ke = layer->w_ke, task.w_ve = layer->w_ve, task.w_be = layer->w_be;
  task.d_w_ke = layer->d_w_ke, task.d_w_ve = layer->d_w_ve, task.d_w_be = layer->d_w_be;
  task.dropout = layer->weights_dropout.threshold ? &layer->weights_dropout : NULL;
  task.accumulate_d_e = l < t->count - 1;
  return task;
}

static void forward_chunk(const Thread *s, const Chunk *chunk) {
  const Stack *t = s->shared->stack;
  const int64_t c = t->c, hidden = t->hidden, m = chunk->rows;
  EACH_GRAPH(chunk) memcpy(chunk_activations(s, chunk, 0).v + r * c, t->v + at * c, FLOAT_BYTES(n * c));
  for (int64_t l = 0; l < t->count; l++) {
    const Layer *layer = t->layers + l;
    const Weights *weights = s->shared->weights[l];
    const Activations acts = chunk_activations(s, chunk, l);
    float *out = l + 1 < t->count ? chunk_activations(s, chunk, l + 1).v : s->y;
    layer_norm(s->normalized, acts.v, m, c, &layer->norm_v);
    linear_forward(weights + QKV, &s->workspace, acts.qkv, s->normalized, m);
    AttentionTask attention = layer_attention(t, l);
    set_qkv(&attention, acts.qkv), attention.output = acts.o;
    EACH_GRAPH(chunk) {
      ReceiverBlock block = {chunk->graphs, g, n, r, 0, 0};
      attend_graph(&attention, &block, s->scratch + l);
    }
    linear_forward(weights + O, &s->workspace, s->y, acts.o, m);
    EACH_GRAPH(chunk)
      add_dropout(acts.x + r * c, acts.v + r * c, s->y + r * c, layer->o.b, n, c, &layer->edges_dropout, at);
    layer_norm(s->normalized, acts.x, m, c, &layer->norm_x);
    linear_forward(weights + FIRST, &s->workspace, acts.a, s->normalized, m);
    EACH_GRAPH(chunk)
      for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < hidden; k += L) {
          float *a = acts.a + (r + i) * hidden + k;
          const V z = load(a) + load(layer->first.b + k);
          store(a, z);
          store(s->g + (r + i) * hidden + k, apply_dropout(&layer->hidden_dropout, gelu(z), (at + i) * hidden + k));
        }
    linear_forward(weights + LAST, &s->workspace, s->y, s->g, m);
    EACH_GRAPH(chunk)
      add_dropout(out + r * c, acts.x + r * c, s->y + r * c, layer->last.b, n, c, &layer->nodes_dropout, at);
  }
  EACH_GRAPH(chunk) {
    memcpy(t->out + at * c, s->y + r * c, FLOAT_BYTES(n * c));
    memset(t->out + (at + n) * c, 0, FLOAT_BYTES((chunk->graphs->n - n) * c));
  }
}

static void backward_chunk(const Thread *s, const Chunk *chunk) {
  const Stack *t = s->shared->stack;
  const int64_t c = t->c, w = width(t), hidden = t->hidden, m = chunk->rows;
  EACH_GRAPH(chunk) memcpy(s->d_x + r * c, t->d_out + at * c, FLOAT_BYTES(n * c));
  for (int64_t l = t->count - 1; l >= 0; l--) {
    const Layer *layer = t->layers + l;
    const Weights *weights = s->shared->weights[l];
    const Activations acts = chunk_activations(s, chunk, l);
    float *const *sums = s->sums[l];
    EACH_GRAPH(chunk) {
      dropout_backward(s->y + r * c, s->d_x + r * c, sums[LAST_B], n, c, &layer->nodes_dropout, at);
      for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < hidden; k += L) {
          const int64_t x = (r + i) * hidden + k;
          const V z = load(acts.a + x);
          const V factor = apply_dropout(&layer->hidden_dropout, (V){} + 1.0f, (at + i) * hidden + k);
          const V cdf = 0.5f * (1.0f + error_function(z * 0.707106781f));
          store(s->g + x, factor * z * cdf);
          store(s->gelu_slope + x, factor * (cdf + z * density(z)));
        }
    }
    linear_backward_weight(weights + LAST, &s->workspace, sums[LAST], s->y, s->g, m);
    linear_backward_input(weights + LAST, &s->workspace, s->d_hidden, s->y, m);
    for (int64_t i = 0; i < m; i++)
      for (int64_t k = 0; k < hidden; k += L) {
        const int64_t x = i * hidden + k;
        const V d = load(s->d_hidden + x) * load(s->gelu_slope + x);
        store(s->d_hidden + x, d);
        store(sums[FIRST_B] + k, load(sums[FIRST_B] + k) + d);
      }
    layer_norm(s->normalized, acts.x, m, c, &layer->norm_x);
    linear_backward_weight(weights + FIRST, &s->workspace, sums[FIRST], s->d_hidden, s->normalized, m);
    linear_backward_input(weights + FIRST, &s->workspace, s->d_y, s->d_hidden, m);
    layer_norm_backward(s->d_x, s->d_y, acts.x, m, c, &layer->norm_x, sums[NORM_X_W], sums[NORM_X_B]);
    EACH_GRAPH(chunk) dropout_backward(s->y + r * c, s->d_x + r * c, sums[O_B], n, c, &layer->edges_dropout, at);
    linear_backward_weight(weights + O, &s->workspace, sums[O], s->y, acts.o, m);
    linear_backward_input(weights + O, &s->workspace, s->d_y, s->y, m);
    AttentionTask attention = layer_attention(t, l);
    set_qkv(&attention, acts.qkv), attention.dy = s->d_y;
    attention.d_q = s->d_qkv, attention.d_k = attention.d_q + w, attention.d_v = attention.d_k + w;
    attention.d_stride = 3 * w;
    EACH_GRAPH(chunk) {
      ReceiverBlock block = {chunk->graphs, g, n, r, 0, 0};
      attend_graph_backward(&attention, &block, s->scratch + l);
      if (!attention.accumulate_d_e) zero_padding_edge_gradients(&attention, &block);
    }
    layer_norm(s->normalized, acts.v, m, c, &layer->norm_v);
    linear_backward_weight(weights + QKV, &s->workspace, sums[QKV], s->d_qkv, s->normalized, m);
    linear_backward_input(weights + QKV, &s->workspace, s->d_y, s->d_qkv, m);
    layer_norm_backward(s->d_x, s->d_y, acts.v, m, c, &layer->norm_v, sums[NORM_V_W], sums[NORM_V_B]);
  }
  EACH_GRAPH(chunk) {
    memcpy(t->d_v + at * c, s->d_x + r * c, FLOAT_BYTES(n * c));
    memset(t->d_v + (at + n) * c, 0, FLOAT_BYTES((chunk->graphs->n - n) * c));
  }
}

static void *run_thread(void *thread) {
  const Thread *s = thread;
  const Stack *t = s->shared->stack;
  if (s->shared->use_amx) configure_tiles();
  for (int64_t l = 0; l < t->count; l++) {
    const AttentionTask attention = layer_attention(t, l);
    init_scratch(&attention, s->scratch + l);
  }
  for (int64_t i = s->from; i < s->to; i++)
    (s->shared->backward ? backward_chunk : forward_chunk)(s, s->shared->chunks + i);
  if (s->shared->use_amx) release_tiles();
  return NULL;
}

/* Splits the graphs, in order, into `chunks`, or only counts the chunks if that is NULL; returns their number. `rows`
 * is the sum of the rows of the chunks, each rounded up to ROW_MULTIPLE; `max_rows` is the most rows of a chunk, and
 * `max_nodes` the most nodes of a graph. */
static int64_t split_into_chunks(const AttentionTask *t, Chunk *chunks, int64_t *rows, int64_t *max_rows,
                                 int64_t *max_nodes) {
  const Graphs *graphs = t->graphs;
  int64_t count = 0;
  *rows = *max_rows = *max_nodes = 0;
  for (int64_t g = 0; g < graphs->count;) {
    Chunk chunk = {graphs, g, 0, 0, *rows};
    for (; g < graphs->count && (!chunk.count || chunk.rows + num_nodes(graphs, g) <= CHUNK_ROWS); g++, chunk.count++) {
      const int64_t n = num_nodes(graphs, g);
      chunk.rows += n;
      if (n > *max_nodes) *max_nodes = n;
    }
    if (chunks) chunks[count] = chunk;
    if (chunk.rows > *max_rows) *max_rows = chunk.rows;
    *rows += round_up(chunk.rows, ROW_MULTIPLE);
    count++;
  }
  return count;
}

/* Places the buffers of a thread in the memory from `at` on, or only counts if `at` is NULL; returns the number of
 * floats. The sums of the first thread are the results themselves. */
static int64_t place_thread_buffers(Thread *s, float *at, const Shared *shared, int64_t max_rows, int64_t max_nodes,
                                    int first) {
  const Stack *t = shared->stack;
  const int64_t c = t->c, w = width(t), hidden = t->hidden, m = round_up(max_rows, ROW_MULTIPLE);
  const int64_t wider = w > c ? w : c;
  const int backward = shared->backward, allocate_activations = !backward && !t->saved;
  const int64_t columns = 3 * w > hidden ? (3 * w > c ? 3 * w : c) : hidden > c ? hidden : c;
  const int64_t tiles =
      shared->use_amx ? (int64_t)workspace_tiles(m, columns) * (int64_t)(sizeof(Tile) / sizeof(float)) : 0;
  Scratch common = {0};
  const Buffer buffers[] = {
      {(float **)&s->workspace.a, tiles},
      {(float **)&s->workspace.b, backward ? tiles : 0},
      {&s->v, allocate_activations * m * c},
      {&s->qkv, allocate_activations * m * 3 * w},
      {&s->o, allocate_activations * m * w},
      {&s->x, allocate_activations * m * c},
      {&s->a, allocate_activations * m * hidden},
      {&s->normalized, m * c},
      {&s->y, m * c},
      {&s->g, m * hidden},
      {&s->gelu_slope, backward * m * hidden},
      {&s->d_qkv, backward * m * 3 * w},
      {&s->d_hidden, backward * m * hidden},
      {&s->d_x, backward * m * c},
      {&s->d_y, backward * m * wider},
  };
  int64_t used = PLACE_BUFFERS(at, buffers);
  used += place_graph_buffers(&common, at ? at + used : NULL, &t->attention, max_nodes);
  for (int64_t i = 0; i < t->attention.tables && backward; i++) {
    const int64_t size = t->attention.num_rows[i] * t->attention.f;
    if (at) {
      common.d_rows[i] = first ? t->attention.d_rows[i] : at + used;
      memset(common.d_rows[i], 0, FLOAT_BYTES(size));
    }
    used += first ? 0 : round_up(size, 16);
  }
  for (int64_t l = 0; l < t->count; l++) {
    const Layer *layer = t->layers + l;
    const AttentionTask attention = layer_attention(t, l);
    float *const result[NUM_SUMS] = {layer->qkv.d_w,    layer->o.d_w,      layer->first.d_w,  layer->last.d_w,
                                     layer->norm_v.d_w, layer->norm_v.d_b, layer->norm_x.d_w, layer->norm_x.d_b,
                                     layer->o.d_b,      layer->first.d_b,  layer->last.d_b};
    if (at) s->scratch[l] = common;
    used += place_weight_buffers(at ? s->scratch + l : &common, at ? at + used : NULL, &attention);
    for (int i = 0; i < NUM_SUMS && backward; i++) {
      if (at) {
        s->sums[l][i] = first ? result[i] : at + used;
        memset(s->sums[l][i], 0, FLOAT_BYTES(sum_size(t, i)));
      }
      used += first ? 0 : round_up(sum_size(t, i), 16);
    }
  }
  return used;
}

/* Whether every graph has from 0 to n nodes. */
static int counts_are_valid(const AttentionTask *t) {
  const Graphs *graphs = t->graphs;
  for (int64_t g = 0; g < graphs->count && graphs->sizes; g++)
    if (graphs->sizes[g] < 0 || graphs->sizes[g] > graphs->n) return 0;
  return 1;
}

/* Whether every edge code is a row of its table. */
static int codes_are_valid(const AttentionTask *t) {
  const Graphs *graphs = t->graphs;
  for (int64_t table = 0; table < t->tables; table++)
    for (int64_t g = 0; g < graphs->count && t->num_rows[table] < 256; g++)
      for (int64_t i = 0, n = num_nodes(graphs, g); i < n; i++) {
        const uint8_t *codes = graphs->edge_codes[table] + (g * graphs->n + i) * graphs->n;
        uint8_t max_code = 0;
        for (int64_t j = 0; j < n; j++) max_code = codes[j] > max_code ? codes[j] : max_code;
        if (max_code >= t->num_rows[table]) return 0;
      }
  return 1;
}

/* Runs all blocks. Returns 0, 1 if out of memory, 2 if an edge code is out of range, or 3 if a number of nodes is. */
static int run_stack(const Stack *t, int threads, int backward) {
  const int64_t c = t->c, w = width(t), hidden = t->hidden;
  const int use_amx = !t->highest_precision && !(c % TILE_DEPTH || w % TILE_DEPTH || hidden % TILE_DEPTH) && has_amx();
  int64_t rows, max_rows, max_nodes;
  if (!counts_are_valid(&t->attention)) return 3;
  if (!codes_are_valid(&t->attention)) return 2;
  const int64_t count = split_into_chunks(&t->attention, NULL, &rows, &max_rows, &max_nodes);
  if (threads < 1 || rows * c < 32768) threads = 1;
  if (threads > count) threads = count ? (int)count : 1;
  Shared shared = {t, backward, use_amx, NULL, NULL};
  Thread unplaced;
  const int64_t first_size = place_thread_buffers(&unplaced, NULL, &shared, max_rows, max_nodes, 1);
  const int64_t other_size = place_thread_buffers(&unplaced, NULL, &shared, max_rows, max_nodes, 0);
  const int64_t weights_size = packed_size(c, 3 * w, use_amx, backward) + packed_size(w, c, use_amx, backward) +
                               packed_size(c, hidden, use_amx, backward) + packed_size(hidden, c, use_amx, backward);
  Chunk *chunks = calloc(count + 1, sizeof(Chunk));
  Weights(*weights)[4] = calloc(t->count + 1, sizeof *weights);
  Thread *workers = calloc(threads, sizeof(Thread));
  Scratch *scratch = calloc(threads * t->count + 1, sizeof(Scratch));
  float *(*sums)[NUM_SUMS] = calloc(threads * t->count + 1, sizeof *sums);
  const Scratch **scratches = calloc(threads, sizeof(Scratch *));
  const int64_t size = weights_size * t->count + first_size + (threads - 1) * other_size;
  float *memory = aligned_alloc(64, round_up(FLOAT_BYTES(size) + 64, 64));
  const int allocated = chunks && weights && workers && scratch && sums && scratches && memory;
  if (allocated) {
    split_into_chunks(&t->attention, chunks, &rows, &max_rows, &max_nodes);
    shared.chunks = chunks, shared.weights = weights;
    float *at = memory;
    for (int64_t l = 0; l < t->count; l++) {
      const Layer *layer = t->layers + l;
      const Weights unpacked[4] = {{c, 3 * w, layer->qkv.w, 0, 0, 0}, {w, c, layer->o.w, 0, 0, 0},
                                   {c, hidden, layer->first.w, 0, 0, 0}, {hidden, c, layer->last.w, 0, 0, 0}};
      for (int i = 0; i < 4; i++) {
        weights[l][i] = unpacked[i];
        pack_weights(&weights[l][i], at, use_amx, backward);
        at += packed_size(unpacked[i].in, unpacked[i].out, use_amx, backward);
      }
    }
    int64_t rows_assigned = 0, next = 0;
    for (int i = 0; i < threads; i++) {
      workers[i].shared = &shared, workers[i].workspace.use_amx = use_amx;
      workers[i].scratch = scratch + i * t->count, workers[i].sums = sums + i * t->count;
      at += place_thread_buffers(&workers[i], at, &shared, max_rows, max_nodes, i == 0);
      workers[i].from = next;
      for (; next < count && (i == threads - 1 || rows_assigned < rows * (i + 1) / threads); next++)
        rows_assigned += round_up(chunks[next].rows, ROW_MULTIPLE);
      workers[i].to = next;
    }
    run_jobs(run_thread, workers, sizeof(Thread), threads);
    for (int64_t l = 0; l < t->count && backward; l++) {
      const AttentionTask attention = layer_attention(t, l);
      for (int i = 0; i < threads; i++) scratches[i] = workers[i].scratch + l;
      reduce_weight_gradients(&attention, scratches, threads);
      for (int i = 1; i < threads; i++)
        for (int k = 0; k < NUM_SUMS; k++)
          for (int64_t x = 0; x < sum_size(t, k); x++) workers[0].sums[l][k][x] += workers[i].sums[l][k][x];
    }
    for (int64_t k = 0; k < t->attention.tables && backward; k++)
      for (int i = 1; i < threads; i++)
        for (int64_t x = 0; x < t->attention.num_rows[k] * t->attention.f; x++)
          workers[0].scratch->d_rows[k][x] += workers[i].scratch->d_rows[k][x];
  }
  free(chunks), free(weights), free(workers), free(scratch), free(sums), free(scratches), free(memory);
  return !allocated;
}

/* The number of floats of `saved`; -1 if a number of nodes is out of range. */
int64_t molattn_blocks_saved_size(const Stack *t) {
  if (!counts_are_valid(&t->attention)) return -1;
  int64_t rows, max_rows, max_nodes;
  split_into_chunks(&t->attention, NULL, &rows, &max_rows, &max_nodes);
  return rows * t->count * saved_per_row(t);
}

int molattn_blocks_forward(const Stack *t, int threads) { return run_stack(t, threads, 0); }
int molattn_blocks_backward(const Stack *t, int threads) { return run_stack(t, threads, 1); }
