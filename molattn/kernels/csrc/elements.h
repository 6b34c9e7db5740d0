/* Dropout and GELU, a vector of elements at a time.
 *
 * Which elements a dropout keeps follows from a key and the place of each: nothing is drawn, nothing is stored, and the
 * gradient finds the same elements again. */

#ifndef MOLATTN_ELEMENTS_H
#define MOLATTN_ELEMENTS_H

#include "layout.h"
#include "vectors.h"

/* molattn.kernels.elementwise.Dropping */
typedef struct {
  uint64_t key;       /* of this dropout */
  uint32_t threshold; /* an element is dropped where its number is below; 0 keeps all */
  float scale;        /* what is kept is multiplied by it */
} Dropping;
LAYOUT(Dropping, FIELD(Dropping, key) FIELD(Dropping, threshold) FIELD(Dropping, scale));

/* 0, 1, 2, ... */
#define LANE(l, s) (l)
INLINE U lanes(void) { return (U){EACH(LANE, 0)}; }

/* What the elements at these places are multiplied by. A place has a number from 0 to 2^32 - 1: the multiplications and
 * shifts of "lowbias32" (C. Wellons, 2018, public domain), with one half of the key before and one within. */
INLINE V kept(const Dropping *dropping, U place) {
  U x = place ^ (uint32_t)dropping->key;
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= (x >> 15) ^ (uint32_t)(dropping->key >> 32);
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return pick((I)(x >= dropping->threshold), (V){} + dropping->scale, (V){});
}

/* phi(x), the normal density; beyond |x| = 13 it is 0. */
INLINE V density(V x) {
  const V t = x * x * -0.5f;
  return pick(t < -86.0f, (V){}, exponential(t) * 0.398942280f);
}

/* erf(x) by a quotient of polynomials in x^2, fitted by least squares; 4e-7 at most from it. NaN stays NaN. */
INLINE V error_function(V x) {
  const V end = (V){} + 3.92f;
  x = pick(x > end, end, x);
  x = pick(x < -end, -end, x);
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

/* gelu(x) = x Phi(x), and its slope Phi(x) + x phi(x). */
INLINE V gelu(V x) { return x * 0.5f * (1.0f + error_function(x * 0.707106781f)); }
INLINE V gelu_slope(V x) { return 0.5f * (1.0f + error_function(x * 0.707106781f)) + x * density(x); }

#endif
