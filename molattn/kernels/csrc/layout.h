/* LAYOUT declares the memory layout of a struct, as an exported array of its fields. Python compares it with its
 * ctypes.Structure before it calls anything: see molattn/kernels/loader.py. */

#ifndef MOLATTN_LAYOUT_H
#define MOLATTN_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  const char *name; /* NULL after the last field, where `size` is that of the struct */
  int64_t offset, size;
} Field;

#define FIELD(of, name) {#name, offsetof(of, name), sizeof(((of *)0)->name)},
#define LAYOUT(of, ...) const Field molattn_layout_##of[] = {__VA_ARGS__{NULL, 0, sizeof(of)}}

#endif
