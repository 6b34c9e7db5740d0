/* Rows of a table looked up by small integers and added, and the gradient of the table.
 *
 * The table is made of `parts` tables one after another, the f-th from row starts[f] on, with sizes[f] rows: code f of a
 * thing is a row of that one. */

#include <stdint.h>
#include <string.h>

/* y_i = sum_f rows[starts_f + codes_if], of n things with `parts` codes each; rows (c, d), y (n, d). 1 where there is a
 * code that its table has no row for; nothing is read then. */
int molattn_look_up(const float *restrict rows, const int32_t *restrict codes, float *restrict y, int64_t n,
                    int64_t parts, int64_t d, const int64_t *restrict starts, const int64_t *restrict sizes) {
  for (int64_t f = 0; f < parts; f++) {
    int32_t least = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
      const int32_t code = codes[i * parts + f];
      least = code < least ? code : least;
      most = code > most ? code : most;
    }
    if (n && (least < 0 || most >= sizes[f])) return 1;
  }
  if (!(n * d)) return 0; /* there is no y */
  memset(y, 0, sizeof(float) * (size_t)(n * d));
  for (int64_t i = 0; i < n; i++)
    for (int64_t f = 0; f < parts; f++) {
      const float *row = rows + (starts[f] + codes[i * parts + f]) * d;
      for (int64_t x = 0; x < d; x++) y[i * d + x] += row[x];
    }
  return 0;
}

/* d_rows[c] = sum of dy_i over all i, f with starts_f + codes_if = c, in that order; (c, d). 1 as above. */
int molattn_look_up_backward(const float *restrict dy, const int32_t *restrict codes, float *restrict d_rows, int64_t n,
                             int64_t parts, int64_t d, const int64_t *restrict starts, const int64_t *restrict sizes,
                             int64_t c) {
  if (!(c * d)) return 0;
  memset(d_rows, 0, sizeof(float) * (size_t)(c * d));
  for (int64_t i = 0; i < n; i++)
    for (int64_t f = 0; f < parts; f++) {
      const int32_t code = codes[i * parts + f];
      if (code < 0 || code >= sizes[f]) return 1;
      float *row = d_rows + (starts[f] + code) * d;
      for (int64_t x = 0; x < d; x++) row[x] += dy[i * d + x];
    }
  return 0;
}
