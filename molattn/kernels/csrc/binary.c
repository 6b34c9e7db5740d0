/* Converts the binary of a molecule (Mol.ToBinary of RDKit) to the codes of its atoms and pairs of atoms, which are
 * indices into embedding tables, and to its path lengths, in one pass.
 *
 * The meaning of the bytes was found by experiment, for the versions in molattn/chem/binary.py, which also describes
 * the tables. The order is: a header; the atoms, each with flags and the values that the flags declare; the bonds; the
 * rings; and data that is not read. The bytes are not trusted: every read is checked against their end and every index
 * against the molecule, and an unknown flag makes the result INVALID. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "cip.h"

enum { DONE, HAS_STEREO, UNSUPPORTED, INVALID }; /* results */
enum { NO_CODE = 255 };                          /* a value without a code */
enum { HEADER_SIZE = 30, MAX_PATH = 254, DISCONNECTED = 255 };
enum { DEFAULT_HYBRIDIZATION = 4, DEFAULT_BOND_TYPE = 1 }; /* values that are not written */

/* molattn.chem.binary.Tables */
typedef struct {
  int64_t features;
  const uint8_t *property; /* (features,) the property of each column */
  const uint8_t *atoms; /* (features, 256) the code of each value of the property, or NO_CODE */
  const uint8_t *pairs; /* (256, 2, 2, 3, 2) by bond type, in ring, conjugated, label, and direction of the pair */
  const uint8_t *start; /* (HEADER_SIZE - 10,) the header before the number of atoms */
  uint8_t self;         /* the code of an atom with itself */
} Tables;
LAYOUT(Tables, FIELD(Tables, features) FIELD(Tables, property) FIELD(Tables, atoms) FIELD(Tables, pairs)
       FIELD(Tables, start) FIELD(Tables, self));

typedef struct {
  const uint8_t *at, *end;
  int wide_indices; /* whether atom indices take four bytes */
  int invalid;      /* whether a read was beyond the end, or a value is invalid */
} Bytes;

static uint8_t read_byte(Bytes *b) {
  if (b->at == b->end) {
    b->invalid = 1;
    return 0;
  }
  return *b->at++;
}

static uint32_t read_word(Bytes *b) {
  uint32_t value = 0;
  for (int shift = 0; shift < 32; shift += 8) value |= (uint32_t)read_byte(b) << shift;
  return value;
}

static uint32_t read_index(Bytes *b) { return b->wide_indices ? read_word(b) : read_byte(b); }

/* The index of an atom, which must be below n. */
static uint32_t read_atom_index(Bytes *b, uint32_t n) {
  uint32_t i = read_index(b);
  if (i < n) return i;
  b->invalid = 1;
  return 0;
}

/* The next byte if the flag is 1, else the other value; without a branch, which would be mispredicted often. */
static inline uint8_t read_byte_if(const uint8_t **at, unsigned flag, uint8_t other) {
  uint8_t value = flag ? **at : other;
  *at += flag;
  return value;
}

/* The most bytes of an atom and of a bond without rare fields. After the last atom and bond, the binary has at least as
 * many further bytes, so a binary with fewer is invalid. */
enum { MAX_ATOM_SIZE = 6 + 7, MAX_BOND_SIZE = 3 + 2 };

/* Reads the properties of an atom, except those that depend on its neighbours and rings. Returns DONE, HAS_STEREO for a
 * chiral tag, or UNSUPPORTED. */
static int read_atom(Bytes *b, uint8_t *properties) {
  if (b->end - b->at < MAX_ATOM_SIZE) {
    b->invalid = 1;
    return DONE;
  }
  const uint8_t *at = b->at + 6;
  unsigned flags = b->at[1], present = b->at[2] | b->at[3] << 8, more = b->at[4] | b->at[5];
  if ((flags & ~0x6cu) || (present & ~0x1feu) || more) b->invalid = 1;
  properties[ELEMENT] = b->at[0];
  properties[AROMATIC] = flags >> 6 & 1;
  properties[CHARGE] = read_byte_if(&at, present >> 1 & 1, 0);
  properties[TAG] = read_byte_if(&at, present >> 2 & 1, 0);
  properties[HYBRIDIZATION] = read_byte_if(&at, present >> 3 & 1, DEFAULT_HYBRIDIZATION);
  unsigned hydrogens = properties[EXPLICIT_HYDROGENS] = read_byte_if(&at, present >> 4 & 1, 0);
  properties[VALENCE] = read_byte_if(&at, present >> 5 & 1, 0); /* the explicit valence */
  unsigned implicit = read_byte_if(&at, present >> 6 & 1, 0);
  hydrogens += flags & 0x20 ? 0 : implicit;
  properties[HYDROGENS] = properties[TOTAL_HYDROGENS] = hydrogens < 255 ? hydrogens : 255;
  properties[RADICALS] = read_byte_if(&at, present >> 7 & 1, 0);
  b->at = at;
  if (present & 0x100) return UNSUPPORTED; /* an isotope */
  if (flags & 0x04) return UNSUPPORTED;  /* the label of a dummy atom */
  if (flags & 0x08) {                    /* an atom map number */
    if (read_byte(b) != 0x18) b->invalid = 1;
    if (read_byte(b) == 0xff) read_word(b);
  }
  return properties[TAG] ? HAS_STEREO : DONE;
}

/* Reads a bond of a molecule of n atoms. Returns DONE, or HAS_STEREO for a stereo bond. */
static int read_bond(Bytes *b, Bond *bond, uint32_t n) {
  for (int end = 0; end < 2; end++) bond->atoms[end] = read_atom_index(b, n);
  if (b->end - b->at < MAX_BOND_SIZE) {
    b->invalid = 1;
    return DONE;
  }
  const uint8_t *at = b->at + 1;
  unsigned flags = *b->at;
  if ((flags & ~0x6eu) || bond->atoms[0] == bond->atoms[1]) b->invalid = 1;
  bond->conjugated = flags >> 5 & 1;
  bond->stereo = bond->label = 0;
  bond->stereo_atoms[0] = bond->stereo_atoms[1] = 0;
  bond->type = read_byte_if(&at, flags >> 3 & 1, DEFAULT_BOND_TYPE);
  bond->direction = read_byte_if(&at, flags >> 2 & 1, 0);
  b->at = at;
  if (!(flags & 0x02)) return DONE;
  bond->stereo = read_byte(b);
  int count = read_byte(b);
  for (int k = 0; k < count; k++) {
    uint32_t atom = read_atom_index(b, n);
    if (count == 2) bond->stereo_atoms[k] = atom;
  }
  return bond->stereo ? HAS_STEREO : DONE;
}

/* Lists the neighbours of every atom i: neighbours[first[i]] to neighbours[first[i + 1] - 1]. */
static void find_neighbours(const Bond *bonds, uint32_t m, uint32_t n, uint32_t *first, uint32_t *neighbours) {
  memset(first, 0, (n + 2) * sizeof *first);
  for (uint32_t k = 0; k < m; k++)
    for (int end = 0; end < 2; end++) first[bonds[k].atoms[end] + 2]++;
  for (uint32_t i = 0; i < n; i++) first[i + 2] += first[i + 1];
  for (uint32_t k = 0; k < m; k++)
    for (int end = 0; end < 2; end++) neighbours[first[bonds[k].atoms[end] + 1]++] = bonds[k].atoms[!end];
}

/* Marks the atoms of all rings, and their bonds among the pairs that are IS_BONDED. */
static void read_rings(Bytes *b, size_t n, uint8_t *properties, uint8_t *pairs) {
  uint8_t how = read_byte(b); /* how RDKit found them */
  if (how != 0x14 && (how < 0x42 || how > 0x44)) b->invalid = 1;
  for (uint32_t rings = read_word(b); rings && !b->invalid; rings--) {
    uint32_t size = read_index(b);
    if (size < 3) b->invalid = 1;
    if (b->invalid) return;
    uint8_t mark = 1 << ((size < 8 ? size : 8) - 3);
    uint32_t start = read_atom_index(b, n), here = start;
    for (uint32_t k = 1; k <= size && !b->invalid; k++) {
      uint32_t there = k < size ? read_atom_index(b, n) : start;
      properties[here * NUM_COLUMNS + RINGS] |= mark;
      if (!pairs[here * n + there]) b->invalid = 1;
      pairs[here * n + there] |= IN_RING;
      pairs[there * n + here] |= IN_RING;
      here = there;
    }
  }
}

/* Path lengths for fewer than 255 atoms, one atom at a time: the row of an atom follows from that of its first earlier
 * neighbour; each further bond i-k may shorten the path between any two atoms x and j,
 *
 *     d(x, j) = min(d(x, j), d(x, i) + 1 + d(k, j), d(x, k) + 1 + d(i, j)).
 *
 * Inner loops have no branches that depend on the molecule, and compute on vectors. */
enum { LANES = 32 };

static inline uint8_t min_u8(uint8_t x, uint8_t y) { return x < y ? x : y; }

static void find_paths(size_t n, const uint32_t *first, const uint32_t *neighbours, uint8_t *rows, uint8_t *paths) {
  size_t width = (n + LANES - 1) / LANES * LANES;
  memset(rows, DISCONNECTED, width * n);
  for (size_t i = 0; i < n; i++) {
    uint8_t *row = rows + i * width;
    row[i] = 0;
    int has_row = 0;
    for (uint32_t s = first[i]; s < first[i + 1]; s++) {
      if (neighbours[s] > i) continue;
      const uint8_t *other = rows + neighbours[s] * width;
      if (!has_row) {
        for (size_t j = 0; j < width; j++) row[j] = min_u8(other[j], 254) + 1;
        row[i] = 0;
        for (size_t j = 0; j < i; j++) rows[j * width + i] = row[j];
        has_row = 1;
        continue;
      }
      uint8_t from_here[256], from_there[256];
      memcpy(from_here, row, width);
      memcpy(from_there, other, width);
      for (size_t x = 0; x <= i; x++) {
        uint8_t *to = rows + x * width, here = min_u8(from_here[x], 254) + 1, there = min_u8(from_there[x], 254) + 1;
        for (size_t j = 0; j < width; j++) {
          uint8_t by_here = min_u8(from_there[j], 255 - here) + here;
          uint8_t by_there = min_u8(from_here[j], 255 - there) + there;
          to[j] = min_u8(to[j], min_u8(by_here, by_there));
        }
      }
    }
  }
  for (size_t i = 0; i < n; i++) memcpy(paths + i * n, rows + i * width, n);
}

/* Path lengths for more atoms, which may exceed a byte and are clipped: breadth-first search from every atom. */
static void find_long_paths(size_t n, const uint32_t *first, const uint32_t *neighbours, uint32_t *queue,
                            uint8_t *paths) {
  memset(paths, DISCONNECTED, n * n);
  for (uint32_t from = 0; from < n; from++, paths += n) {
    uint32_t done = 0, found = 1;
    queue[0] = from;
    paths[from] = 0;
    while (done < found) {
      uint32_t i = queue[done++];
      uint8_t length = paths[i] < MAX_PATH ? paths[i] + 1 : MAX_PATH;
      for (uint32_t s = first[i]; s < first[i + 1]; s++)
        if (paths[neighbours[s]] == DISCONNECTED) {
          paths[neighbours[s]] = length;
          queue[found++] = neighbours[s];
        }
    }
  }
}

/* The scratch memory for a molecule of n atoms and m bonds, in one allocation. */
typedef struct {
  Bond *bonds;          /* (m,) */
  uint32_t *first;      /* (n + 2,), see `find_neighbours` */
  uint32_t *neighbours; /* (2 m,) */
  uint32_t *queue;      /* (n,) */
  uint8_t *properties;  /* (n, NUM_COLUMNS) */
  uint8_t *rows;        /* (n, n rounded up to LANES), path lengths for `find_paths` */
} Scratch;

/* Reads the atoms, bonds and rings, and writes all codes. Returns DONE, HAS_STEREO, UNSUPPORTED or INVALID. */
static int read_all(const Tables *t, Bytes *b, size_t n, uint32_t m, int perceived, Scratch w, uint8_t *codes) {
  int result = DONE;
  for (size_t i = 0; i < n && !b->invalid; i++) {
    int of_atom = read_atom(b, w.properties + i * NUM_COLUMNS);
    if (of_atom == UNSUPPORTED && !b->invalid) return of_atom;
    result |= of_atom;
  }
  if (read_byte(b) != 0x0b) b->invalid = 1;
  for (uint32_t k = 0; k < m && !b->invalid; k++) {
    result |= read_bond(b, w.bonds + k, n);
    if (!perceived && w.bonds[k].direction) result |= HAS_STEREO;
  }
  if (b->invalid) return INVALID;

  uint8_t *pairs = codes + n * t->features, *paths = pairs + n * n;
  memset(pairs, 0, n * n);
  for (uint32_t k = 0; k < m; k++) {
    size_t i = w.bonds[k].atoms[0], j = w.bonds[k].atoms[1];
    pairs[i * n + j] = pairs[j * n + i] = IS_BONDED;
  }
  read_rings(b, n, w.properties, pairs);
  if (b->invalid) return INVALID;

  find_neighbours(w.bonds, m, n, w.first, w.neighbours);
  if (result == HAS_STEREO && assign_labels(n, m, perceived, w.properties, w.bonds, w.first, w.neighbours, pairs))
    result = DONE;
  if (result == HAS_STEREO && !perceived) return result;

  int supported = 1;
  for (uint32_t k = 0; k < m; k++) {
    size_t i = w.bonds[k].atoms[0], j = w.bonds[k].atoms[1];
    int in_ring = pairs[i * n + j] / IN_RING;
    const Bond *bond = w.bonds + k;
    const uint8_t *pair = t->pairs + (((bond->type * 2 + in_ring) * 2 + bond->conjugated) * 3 + bond->label) * 2;
    supported &= pair[0] != NO_CODE;
    pairs[i * n + j] = pair[0];
    pairs[j * n + i] = pair[1];
  }
  for (size_t i = 0; i < n; i++) pairs[i * n + i] = t->self;

  for (size_t i = 0; i < n; i++, codes += t->features) {
    uint8_t *properties = w.properties + i * NUM_COLUMNS;
    unsigned hydrogens = properties[HYDROGENS], degree = w.first[i + 1] - w.first[i];
    for (uint32_t s = w.first[i]; s < w.first[i + 1]; s++)
      hydrogens += w.properties[w.neighbours[s] * NUM_COLUMNS + ELEMENT] == 1;
    properties[HYDROGENS] = hydrogens < 255 ? hydrogens : 255;
    properties[DEGREE] = degree < 255 ? degree : 255;
    for (int64_t f = 0; f < t->features; f++) {
      codes[f] = t->atoms[f * 256 + properties[t->property[f]]];
      supported &= codes[f] != NO_CODE;
    }
  }
  if (!supported) return UNSUPPORTED;
  if (n < 255) find_paths(n, w.first, w.neighbours, w.rows, paths);
  else find_long_paths(n, w.first, w.neighbours, w.queue, paths);
  return result;
}

static int read_molecule(const Tables *t, const uint8_t *binary, int64_t length, int64_t n, int perceived,
                         uint8_t *codes) {
  if (n < 1 || n > INT32_MAX / 64 || length < HEADER_SIZE || memcmp(binary, t->start, HEADER_SIZE - 10))
    return INVALID;
  Bytes b = {binary + HEADER_SIZE - 10, binary + length, n > 255, 0};
  uint32_t atoms = read_word(&b), m = read_word(&b);
  /* An atom takes at least six bytes, and a bond three. */
  if (atoms != n || n * 6 > length || m > (uint64_t)length / 3 || read_byte(&b) != 0x80 || read_byte(&b) != 0x01)
    return INVALID;
  size_t num_words = 2 * (size_t)n + 2 + 2 * (size_t)m, width = n < 255 ? (n + LANES - 1) / LANES * LANES : 0;
  Bond *bonds = malloc(m * sizeof(Bond) + num_words * sizeof(uint32_t) + n * (NUM_COLUMNS + width));
  if (bonds == NULL) return INVALID;
  uint32_t *first = (uint32_t *)(bonds + m);
  uint8_t *properties = (uint8_t *)(first + num_words);
  Scratch scratch = {bonds, first, first + n + 2, first + n + 2 + 2 * m, properties, properties + n * NUM_COLUMNS};
  memset(properties, 0, n * NUM_COLUMNS);
  int result = read_all(t, &b, n, m, perceived, scratch, codes);
  free(bonds);
  return b.invalid ? INVALID : result;
}

/* Writes the codes of a molecule of n atoms: (n, features) of atoms, (n, n) of pairs and (n, n) path lengths,
 * concatenated. They are complete for DONE and HAS_STEREO only; with HAS_STEREO all stereo labels are none, because
 * some of them need more than the first rule. */
int molattn_read(const Tables *t, const uint8_t *binary, int64_t length, int64_t n, uint8_t *codes) {
  return read_molecule(t, binary, length, n, 1, codes);
}

/* The same for a sanitized molecule whose stereochemistry RDKit has not perceived: chiral tags and the directions of
 * bonds are as in the SMILES. The codes are complete for DONE only; with HAS_STEREO, RDKit has to perceive it. */
int molattn_read_unperceived(const Tables *t, const uint8_t *binary, int64_t length, int64_t n, uint8_t *codes) {
  return read_molecule(t, binary, length, n, 0, codes);
}
