/* Dropout and GELU of whole tensors: see elements.h. */

#include "elements.h"

/* y = body, of x and a as far as they are given, for all i of n elements; the last few in a vector that is partly empty. */
#define FOR_ALL(body)                                                          \
  int64_t i = 0;                                                               \
  for (; i + L <= n; i += L) {                                                 \
    const U place = lanes() + (uint32_t)i;                                     \
    store(y + i, body(load(a + i), load(x + i)));                              \
  }                                                                            \
  if (i < n) {                                                                 \
    const U place = lanes() + (uint32_t)i;                                     \
    const size_t rest = FLOATS(n - i);                                         \
    V of_a = {}, of_x = {}, of_y;                                              \
    memcpy(&of_a, a + i, rest), memcpy(&of_x, x + i, rest);                    \
    of_y = body(of_a, of_x);                                                   \
    memcpy(y + i, &of_y, rest);                                                \
  }

/* y = m: what a dropout multiplies by. */
void molattn_kept(const Dropping *m, int64_t n, float *y) {
  const float *a = y, *x = y;
#define KEPT(a, x) kept(m, place)
  FOR_ALL(KEPT)
}

/* y = m x; the gradient is the same of dy. */
void molattn_drop(const Dropping *m, int64_t n, const float *x, float *y) {
  const float *a = x;
#define DROP(a, x) kept(m, place) * x
  FOR_ALL(DROP)
}

/* y = a + m x. */
void molattn_add_dropped(const Dropping *m, int64_t n, const float *a, const float *x, float *y) {
#define ADD_DROPPED(a, x) a + kept(m, place) * x
  FOR_ALL(ADD_DROPPED)
}

/* y = m gelu(x). */
void molattn_gelu(const Dropping *m, int64_t n, const float *x, float *y) {
  const float *a = x;
#define GELU(a, x) kept(m, place) * gelu(x)
  FOR_ALL(GELU)
}

/* y = m gelu'(x) a, with a = dL/dy of `molattn_gelu`. */
void molattn_gelu_backward(const Dropping *m, int64_t n, const float *x, const float *a, float *y) {
#define GELU_BACKWARD(a, x) kept(m, place) * gelu_slope(x) * a
  FOR_ALL(GELU_BACKWARD)
}
