/* Rows of a table looked up by small integers and added, and the gradient of the table. */

#include <stdint.h>
#include <string.h>

/* y_i = sum_f rows[codes_if], of n things with `parts` codes each; rows (c, d), y (n, d). 1 where a code is not below c. */
int molattn_look_up(const float *restrict rows, const int32_t *restrict codes, float *restrict y, int64_t n,
                    int64_t parts, int64_t d, int64_t c) {
  for (int64_t k = 0; k < n * parts; k++)
    if (codes[k] < 0 || codes[k] >= c) return 1;
  memset(y, 0, sizeof(float) * (size_t)(n * d));
  for (int64_t i = 0; i < n; i++)
    for (int64_t f = 0; f < parts; f++) {
      const float *row = rows + codes[i * parts + f] * d;
      for (int64_t x = 0; x < d; x++) y[i * d + x] += row[x];
    }
  return 0;
}

/* d_rows[c] = sum of dy_i over all codes_if = c, in the order of i; the codes are those of a look-up that went well. */
int molattn_look_up_backward(const float *restrict dy, const int32_t *restrict codes, float *restrict d_rows, int64_t n,
                             int64_t parts, int64_t d, int64_t c) {
  memset(d_rows, 0, sizeof(float) * (size_t)(c * d));
  for (int64_t i = 0; i < n; i++)
    for (int64_t f = 0; f < parts; f++) {
      float *row = d_rows + codes[i * parts + f] * d;
      for (int64_t x = 0; x < d; x++) row[x] += dy[i * d + x];
    }
  return 0;
}
