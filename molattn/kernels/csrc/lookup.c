/* Sums of embedding rows that integer codes select, and the gradient of the table.
 *
 * The table is the concatenation of `num_tables` tables. Table f begins at row offsets[f] and has sizes[f] rows; code
 * f of an item selects one of its rows. */

#include <stdint.h>
#include <string.h>

/* y_i = sum_f rows[offset_f + codes_if], of n items with `num_tables` codes each; rows (c, d), y (n, d). Returns 1 if a
 * code is out of range of its table, before any row is read. */
int molattn_look_up(const float *restrict rows, const int32_t *restrict codes, float *restrict y, int64_t n,
                    int64_t num_tables, int64_t d, const int64_t *restrict offsets, const int64_t *restrict sizes) {
  for (int64_t f = 0; f < num_tables; f++) {
    int32_t lowest = 0, highest = 0;
    for (int64_t i = 0; i < n; i++) {
      const int32_t code = codes[i * num_tables + f];
      lowest = code < lowest ? code : lowest;
      highest = code > highest ? code : highest;
    }
    if (n && (lowest < 0 || highest >= sizes[f])) return 1;
  }
  if (n * d == 0) return 0; /* y is empty */
  memset(y, 0, sizeof(float) * (size_t)(n * d));
  for (int64_t i = 0; i < n; i++)
    for (int64_t f = 0; f < num_tables; f++) {
      const float *row = rows + (offsets[f] + codes[i * num_tables + f]) * d;
      for (int64_t x = 0; x < d; x++) y[i * d + x] += row[x];
    }
  return 0;
}

/* d_rows[r] = sum of dy_i over all i, f with offset_f + codes_if = r, in that order; (c, d). Returns 1 if a code is out
 * of range of its table. */
int molattn_look_up_backward(const float *restrict dy, const int32_t *restrict codes, float *restrict d_rows, int64_t n,
                             int64_t num_tables, int64_t d, const int64_t *restrict offsets,
                             const int64_t *restrict sizes, int64_t c) {
  if (c * d == 0) return 0;
  memset(d_rows, 0, sizeof(float) * (size_t)(c * d));
  for (int64_t i = 0; i < n; i++)
    for (int64_t f = 0; f < num_tables; f++) {
      const int32_t code = codes[i * num_tables + f];
      if (code < 0 || code >= sizes[f]) return 1;
      float *row = d_rows + (offsets[f] + code) * d;
      for (int64_t x = 0; x < d; x++) row[x] += dy[i * d + x];
    }
  return 0;
}
