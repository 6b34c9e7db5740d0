/* Dropout and GELU, one element at a time, in vectors that the compiler makes of these loops.
 *
 * Which elements a dropout keeps follows from a key and the place of each: nothing is drawn, nothing is stored, and the
 * gradient finds the same elements again. */

#include <stdint.h>
#include <string.h>

typedef struct {
  int64_t n;          /* elements */
  uint64_t key;       /* of this dropout */
  uint32_t threshold; /* an element is dropped where its number is below; 0 keeps all */
  float scale;        /* what is kept is multiplied by it */
} Dropping;

#define INLINE static inline __attribute__((always_inline))

/* A number from 0 to 2^32 - 1 for a place: the multiplications and shifts of "lowbias32" (C. Wellons, 2018, public
 * domain), with one half of the key before and one within. */
INLINE uint32_t number(uint32_t place, uint32_t low, uint32_t high) {
  uint32_t x = place ^ low;
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= (x >> 15) ^ high;
  x *= 0x846ca68bU;
  return x ^ (x >> 16);
}

#define FACTOR(i) (number((uint32_t)(i), low, high) >= threshold ? scale : 0.0f)
#define OF(dropping)                                                                    \
  const uint32_t low = (uint32_t)(dropping)->key, high = (uint32_t)((dropping)->key >> 32); \
  const uint32_t threshold = (dropping)->threshold;                                     \
  const float scale = (dropping)->scale;                                                \
  const int64_t n = (dropping)->n

/* Vectors are GCC's and Clang's own, which they cut into what the processor has. */
#define LANES 16
typedef float V __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t I __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* phi(x), the normal density: e^-t with t = x^2 / 2 as 2^k e^r, |r| <= ln(2) / 2. Beyond |x| = 13 it is 0. */
INLINE V density(V x) {
  V t = x * x * -0.5f;
  I far = t < -86.0f;
  t = (V)((I)t & ~far);
  I k = __builtin_convertvector(t * 1.44269504f - 0.5f, I);
  V whole = __builtin_convertvector(k, V), r = t - whole * 0.693359375f + whole * 2.12194440e-4f;
  V p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * r * r + r + 1.0f) * (V)((k + 127) << 23) * 0.398942280f;
  return (V)((I)p & ~far);
}

/* erf(x) by a quotient of polynomials in x^2, fitted by least squares; 4e-7 at most from it. NaN stays NaN. */
INLINE float error_function(float x) {
  x = x > 3.92f ? 3.92f : x;
  x = x < -3.92f ? -3.92f : x;
  float t = x * x;
  float p = -1.184302430e-08f;
  p = p * t + 4.418833600e-06f;
  p = p * t + 3.698475746e-04f;
  p = p * t + 3.830050231e-03f;
  p = p * t + 5.412249092e-02f;
  p = p * t + 1.854530955e-01f;
  p = p * t + 1.128379167e+00f;
  float q = 6.058927168e-05f;
  q = q * t + 1.290433811e-03f;
  q = q * t + 1.538926809e-02f;
  q = q * t + 1.138601926e-01f;
  q = q * t + 4.976868892e-01f;
  q = q * t + 1.0f;
  return x * p / q;
}

/* y = m: what a dropout multiplies by. */
void molattn_kept(const Dropping *dropping, float *restrict y) {
  OF(dropping);
  for (int64_t i = 0; i < n; i++) y[i] = FACTOR(i);
}

/* y = m x; the gradient is the same of dy. */
void molattn_drop(const Dropping *dropping, const float *restrict x, float *restrict y) {
  OF(dropping);
  for (int64_t i = 0; i < n; i++) y[i] = FACTOR(i) * x[i];
}

/* y = a + m x. */
void molattn_add_dropped(const Dropping *dropping, const float *restrict a, const float *restrict x, float *restrict y) {
  OF(dropping);
  for (int64_t i = 0; i < n; i++) y[i] = a[i] + FACTOR(i) * x[i];
}

/* y = m gelu(x), gelu(x) = x Phi(x). */
void molattn_gelu(const Dropping *dropping, const float *restrict x, float *restrict y) {
  OF(dropping);
  for (int64_t i = 0; i < n; i++)
    y[i] = FACTOR(i) * (0.5f * x[i]) * (1.0f + error_function(x[i] * 0.707106781f));
}

/* dx = m (Phi(x) + x phi(x)) dy. */
void molattn_gelu_backward(const Dropping *dropping, const float *restrict x, const float *restrict dy,
                           float *restrict dx) {
  OF(dropping);
  int64_t whole = n - n % LANES;
  for (int64_t i = 0; i < whole; i += LANES) *(V *)(dx + i) = density(*(const V *)(x + i));
  V rest = {};
  memcpy(&rest, x + whole, sizeof(float) * (size_t)(n - whole));
  rest = density(rest);
  memcpy(dx + whole, &rest, sizeof(float) * (size_t)(n - whole));
  for (int64_t i = 0; i < n; i++) {
    float slope = 0.5f * (1.0f + error_function(x[i] * 0.707106781f)) + x[i] * dx[i];
    dx[i] = FACTOR(i) * slope * dy[i];
  }
}
