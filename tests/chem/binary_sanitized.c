/* Reads binaries, whole, cut short and with bytes changed, each from memory that ends with it:
 *
 *     cc -fsanitize=address,undefined -fno-sanitize-recover binary_sanitized.c -I ../../molattn/kernels/csrc && ./a.out FILE
 *
 * FILE holds the tables (features, self, then property, atoms, pairs and start) and after them, for each molecule, n, the
 * length of its binary and the binary; numbers are int64. It prints how many calls of each outcome there were. */

#include <stdio.h>

#include "binary.c"

static FILE *file;

static void *taken(size_t size) {
  void *to = malloc(size ? size : 1);
  if (fread(to, 1, size, file) != size) exit(3);
  return to;
}

static int64_t number(void) {
  int64_t *at = taken(sizeof *at), value = *at;
  free(at);
  return value;
}

static long counts[4];

static void call(const Tables *t, const uint8_t *binary, int64_t length, int64_t n) {
  uint8_t *copy = malloc(length ? length : 1);
  memcpy(copy, binary, length);
  uint8_t *codes = malloc(n * t->features + 2 * n * n);
  counts[molattn_read(t, copy, length, n, codes)]++;
  molattn_read_unperceived(t, copy, length, n, codes);
  free(codes);
  free(copy);
}

int main(int argc, char **argv) {
  if (argc != 2 || !(file = fopen(argv[1], "rb"))) return 2;
  Tables t = {0};
  t.features = number();
  t.self = number();
  t.property = taken(t.features);
  t.atoms = taken(t.features * 256);
  t.pairs = taken(256 * 24);
  t.start = taken(HEADER_SIZE - 10);
  uint64_t random = 88172645463325252u;
  for (int64_t n; fread(&n, sizeof n, 1, file) == 1;) {
    int64_t length = number();
    uint8_t *binary = taken(length);
    call(&t, binary, length, n);
    /* Long ones at fewer places, or it would take hours. */
    for (int64_t cut = 0; cut < length; cut += 1 + length / 500) call(&t, binary, cut, n);
    for (int64_t k = 0; k < (n < 300 ? 400 : 20); k++) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      int64_t at = random % length;
      uint8_t was = binary[at];
      binary[at] = random >> 32;
      call(&t, binary, length, n);
      binary[at] = was;
    }
    for (int bit = 0; bit < 8 && n < 300; bit++)
      for (int64_t at = 0; at < length; at += 1 + length / 100) {
        binary[at] ^= 1 << bit;
        call(&t, binary, length, n);
        binary[at] ^= 1 << bit;
      }
    free(binary);
  }
  printf("%ld %ld %ld %ld\n", counts[0], counts[1], counts[2], counts[3]);
  free((void *)t.property), free((void *)t.atoms), free((void *)t.pairs), free((void *)t.start);
  fclose(file);
  return 0;
}
