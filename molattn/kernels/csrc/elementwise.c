/* Dropout and GELU of whole tensors: see elements.h. */

#include "elements.h"

/* y_i = body(a_i, x_i) for i = 0, ..., n - 1; `index` is the vector of i for dropout. The last elements, fewer than a
 * vector, are computed in a vector padded with zeros. */
#define FOR_ALL(body)                                                          \
  int64_t i = 0;                                                               \
  for (; i + L <= n; i += L) {                                                 \
    const U index = lanes() + (uint32_t)i;                                     \
    store(y + i, body(load(a + i), load(x + i)));                              \
  }                                                                            \
  if (i < n) {                                                                 \
    const U index = lanes() + (uint32_t)i;                                     \
    const size_t rest = FLOAT_BYTES(n - i);                                    \
    V v_a = {}, v_x = {}, v_y;                                                 \
    memcpy(&v_a, a + i, rest), memcpy(&v_x, x + i, rest);                      \
    v_y = body(v_a, v_x);                                                      \
    memcpy(y + i, &v_y, rest);                                                 \
  }

/* y = m, the dropout mask. */
void molattn_dropout_mask(const Dropout *m, int64_t n, float *y) {
  const float *a = y, *x = y;
#define DROPOUT_MASK(a, x) dropout_factor(m, index)
  FOR_ALL(DROPOUT_MASK)
}

/* y = m x; also its gradient, with x = dL/dy. */
void molattn_dropout(const Dropout *m, int64_t n, const float *x, float *y) {
  const float *a = x;
#define DROPOUT(a, x) dropout_factor(m, index) * x
  FOR_ALL(DROPOUT)
}

/* y = a + m x. */
void molattn_add_dropout(const Dropout *m, int64_t n, const float *a, const float *x, float *y) {
#define ADD_DROPOUT(a, x) a + dropout_factor(m, index) * x
  FOR_ALL(ADD_DROPOUT)
}

/* y = m gelu(x). */
void molattn_dropout_gelu(const Dropout *m, int64_t n, const float *x, float *y) {
  const float *a = x;
#define DROPOUT_GELU(a, x) dropout_factor(m, index) * gelu(x)
  FOR_ALL(DROPOUT_GELU)
}

/* y = m gelu'(x) a, with a = dL/dy of `molattn_dropout_gelu`. */
void molattn_dropout_gelu_backward(const Dropout *m, int64_t n, const float *x, const float *a, float *y) {
#define DROPOUT_GELU_BACKWARD(a, x) dropout_factor(m, index) * gelu_derivative(x) * a
  FOR_ALL(DROPOUT_GELU_BACKWARD)
}
