/* Dropout and GELU, one vector of elements at a time.
 *
 * A counter-based random number generator decides which elements are dropped, from the key of the dropout and the index
 * of each element: there is no random state, no mask is stored, and the gradient computes the same mask again. */

#ifndef MOLATTN_ELEMENTS_H
#define MOLATTN_ELEMENTS_H

#include "layout.h"
#include "vectors.h"

/* molattn.kernels.elementwise.Dropout */
typedef struct {
  uint64_t key;       /* the seed of the mask */
  uint32_t threshold; /* an element is dropped if its random number is below; 0 keeps all */
  float scale;        /* factor of the other elements, 1 / (1 - p) */
} Dropout;
LAYOUT(Dropout, FIELD(Dropout, key) FIELD(Dropout, threshold) FIELD(Dropout, scale));

/* 0, 1, 2, ... */
#define LANE(l, s) (l)
INLINE U lanes(void) { return (U){EACH(LANE, 0)}; }

/* The factors of the elements at these indices: 0 or the scale. Each index is hashed to a number from 0 to 2^32 - 1 by
 * the multiplications and shifts of "lowbias32" (C. Wellons, 2018, public domain), with one half of the key mixed in
 * before them and the other half between them. */
INLINE V dropout_factor(const Dropout *dropout, U index) {
  U x = index ^ (uint32_t)dropout->key;
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= (x >> 15) ^ (uint32_t)(dropout->key >> 32);
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return blend((I)(x >= dropout->threshold), (V){} + dropout->scale, (V){});
}

/* phi(x), the standard normal density; 0 beyond |x| = 13. */
INLINE V density(V x) {
  const V t = x * x * -0.5f;
  return blend(t < -86.0f, (V){}, exponential(t) * 0.398942280f);
}

/* erf(x) by a quotient of polynomials in x^2, fitted by least squares, with an error of at most 4e-7. NaN stays NaN. */
INLINE V error_function(V x) {
  const V end = (V){} + 3.92f;
  x = blend(x > end, end, x);
  x = blend(x < -end, -end, x);
  const V t = x * x;
  V p = t * -1.184302430e-08f + 4.418833600e-06f;
  p = p * t + 3.698475746e-04f;
  p = p * t + 3.830050231e-03f;
  p = p * t + 5.412249092e-02f;
  p = p * t + 1.854530955e-01f;
  p = p * t + 1.128379167e+00f;
  V q = t * 6.058927168e-05f + 1.290433811e-03f;
  q = q * t + 1.538926809e-02f;
  q = q * t + 1.138601926e-01f;
  q = q * t + 4.976868892e-01f;
  q = q * t + 1.0f;
  return x * p / q;
}

/* gelu(x) = x Phi(x), and its derivative Phi(x) + x phi(x). */
INLINE V gelu(V x) { return x * 0.5f * (1.0f + error_function(x * 0.707106781f)); }
INLINE V gelu_derivative(V x) { return 0.5f * (1.0f + error_function(x * 0.707106781f)) + x * density(x); }

#endif
