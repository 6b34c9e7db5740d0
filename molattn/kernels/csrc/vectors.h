/* Vectors of L lanes by the vector extensions of GCC and Clang, which split them to fit the processor's registers: V of
 * float32, I of int32 (also the masks that comparisons return: all bits set or none), U of uint32. */

#ifndef MOLATTN_VECTORS_H
#define MOLATTN_VECTORS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* EACH(of, s) is the list of(0, s), of(1, s), ..., of(L - 1, s). */
#ifdef __AVX512F__
#define L 16
#define EACH(of, s)                                                                                            \
  of(0, s), of(1, s), of(2, s), of(3, s), of(4, s), of(5, s), of(6, s), of(7, s), of(8, s), of(9, s), of(10, s), \
      of(11, s), of(12, s), of(13, s), of(14, s), of(15, s)
#else
#define L 8
#define EACH(of, s) of(0, s), of(1, s), of(2, s), of(3, s), of(4, s), of(5, s), of(6, s), of(7, s)
#endif
typedef float V __attribute__((vector_size(4 * L), aligned(4), may_alias));
typedef int32_t I __attribute__((vector_size(4 * L), aligned(4), may_alias));
typedef uint32_t U __attribute__((vector_size(4 * L), aligned(4), may_alias));
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline, unused)) /* as fast as inlined, and compiles in a third of the time */
#define FLOAT_BYTES(count) ((size_t)(count) * sizeof(float))
#define LOWEST (-3.402823466e38f)

INLINE int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }
INLINE V load(const float *p) { return *(const V *)p; }
INLINE void store(float *p, V x) { *(V *)p = x; }
INLINE V blend(I where, V a, V b) { return (V)(((I)a & where) | ((I)b & ~where)); } /* where ? a : b, for each lane */

#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (I){__VA_ARGS__})
#endif
/* One step of the transposition: swaps the off-diagonal blocks of s x s lanes within each block of 2 s x 2 s. */
#define LOWER_BLOCK(l, s) ((l) & (s) ? L + (l) - (s) : (l))
#define UPPER_BLOCK(l, s) ((l) & (s) ? L + (l) : (l) + (s))
#define SWAP_BLOCKS(x, s)                                                            \
  for (int i_ = 0; i_ < L; i_++)                                                     \
    if (!(i_ & (s))) {                                                               \
      const V a_ = x[i_], b_ = x[i_ + (s)];                                          \
      x[i_] = SHUFFLE(a_, b_, EACH(LOWER_BLOCK, s)), x[i_ + (s)] = SHUFFLE(a_, b_, EACH(UPPER_BLOCK, s)); \
    }

/* Transposes an L x L matrix in place. */
INLINE void transpose_vectors(V x[L]) {
#if L == 16
  SWAP_BLOCKS(x, 8)
#endif
  SWAP_BLOCKS(x, 4)
  SWAP_BLOCKS(x, 2)
  SWAP_BLOCKS(x, 1)
}

/* e^x for x <= 0, to one unit in the last place: 2^k e^r, |r| <= ln(2) / 2, by a polynomial. NaN stays NaN. */
INLINE V exponential(V x) {
  const V zero = {};
  x = blend(x < -87.0f, zero - 87.0f, x);
  I k = __builtin_convertvector(x * 1.44269504f - 0.5f, I);
  V r = x - __builtin_convertvector(k, V) * 0.693359375f + __builtin_convertvector(k, V) * 2.12194440e-4f;
  V p = zero + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return (p * r * r + r + 1.0f) * (V)((k + 127) << 23);
}

#endif
