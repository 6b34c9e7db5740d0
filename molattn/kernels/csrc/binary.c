/* From RDKit's binary of a molecule to the codes of its atoms and pairs and the lengths of its paths, in one pass.
 *
 * What the bytes mean was found by experiment, for the versions in molattn/chem/binary.py, which also says what the
 * tables hold. In order: a header; the atoms, each with flags and the numbers that the flags announce; the bonds; the
 * rings; and what is not read here. Nothing is believed of the bytes: every read is within them and every index within
 * the molecule, and a bit that is not known ends the reading. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "cip.h"

enum { DONE, HAS_STEREO, NOT_COVERED, NOT_UNDERSTOOD }; /* what came of it */
enum { NONE = 255 };                                    /* no code for this */
enum { HEADER = 30, MAX_PATH = 254, APART = 255 };
enum { SP3 = 4, SINGLE = 1 }; /* what is not written */

/* molattn.chem.binary.Tables */
typedef struct {
  int64_t features;
  const uint8_t *fact;  /* (features,) what the column looks at */
  const uint8_t *atoms; /* (features, 256) its code for each value of the fact, or NONE */
  const uint8_t *pairs; /* (256, 2, 2, 3, 2) by kind, in ring, conjugated, label: as either atom calls it */
  const uint8_t *start; /* (HEADER - 10,) how the bytes begin, up to the number of atoms */
  uint8_t self;         /* an atom with itself */
} Tables;
LAYOUT(Tables, FIELD(Tables, features) FIELD(Tables, fact) FIELD(Tables, atoms) FIELD(Tables, pairs)
       FIELD(Tables, start) FIELD(Tables, self));

typedef struct {
  const uint8_t *at, *end;
  int wide;  /* whether places of atoms take four bytes */
  int wrong; /* whether more was asked for than there is, or something else is not right */
} Bytes;

static uint8_t byte(Bytes *b) {
  if (b->at == b->end) {
    b->wrong = 1;
    return 0;
  }
  return *b->at++;
}

static uint32_t word(Bytes *b) {
  uint32_t value = 0;
  for (int shift = 0; shift < 32; shift += 8) value |= (uint32_t)byte(b) << shift;
  return value;
}

static uint32_t place(Bytes *b) { return b->wide ? word(b) : byte(b); }

static uint32_t atom_below(Bytes *b, uint32_t n) {
  uint32_t i = place(b);
  if (i < n) return i;
  b->wrong = 1;
  return 0;
}

/* The next byte where the flag is set, and the other value where it is not; without a branch, which no processor could
 * foresee. */
static inline uint8_t byte_if(const uint8_t **at, unsigned flag, uint8_t other) {
  uint8_t value = flag ? **at : other;
  *at += flag;
  return value;
}

enum { ATOM = 6 + 7, BOND = 3 + 2 }; /* bytes of the longest, without what is rare; at the end follow as many */

/* One atom: what is known of it but for what its neighbours and rings decide. */
static int read_atom(Bytes *b, uint8_t *facts) {
  if (b->end - b->at < ATOM) {
    b->wrong = 1;
    return DONE;
  }
  const uint8_t *at = b->at + 6;
  unsigned flags = b->at[1], given = b->at[2] | b->at[3] << 8, more = b->at[4] | b->at[5];
  if ((flags & ~0x6cu) || (given & ~0x1feu) || more) b->wrong = 1;
  facts[ELEMENT] = b->at[0];
  facts[AROMATIC] = flags >> 6 & 1;
  facts[CHARGE] = byte_if(&at, given >> 1 & 1, 0);
  facts[TAG] = byte_if(&at, given >> 2 & 1, 0);
  facts[HYBRIDISATION] = byte_if(&at, given >> 3 & 1, SP3);
  unsigned hydrogens = facts[WRITTEN] = byte_if(&at, given >> 4 & 1, 0);
  facts[VALENCE] = byte_if(&at, given >> 5 & 1, 0); /* of what is written */
  unsigned implicit = byte_if(&at, given >> 6 & 1, 0);
  hydrogens += flags & 0x20 ? 0 : implicit;
  facts[HYDROGENS] = facts[HELD] = hydrogens < 255 ? hydrogens : 255;
  facts[RADICALS] = byte_if(&at, given >> 7 & 1, 0);
  b->at = at;
  if (given & 0x100) return NOT_COVERED; /* an isotope */
  if (flags & 0x04) return NOT_COVERED;  /* the label of a dummy atom */
  if (flags & 0x08) {                    /* the number of an atom map */
    if (byte(b) != 0x18) b->wrong = 1;
    if (byte(b) == 0xff) word(b);
  }
  return facts[TAG] ? HAS_STEREO : DONE;
}

static int read_bond(Bytes *b, Bond *bond, uint32_t n) {
  for (int end = 0; end < 2; end++) bond->ends[end] = atom_below(b, n);
  if (b->end - b->at < BOND) {
    b->wrong = 1;
    return DONE;
  }
  const uint8_t *at = b->at + 1;
  unsigned flags = *b->at;
  if ((flags & ~0x6eu) || bond->ends[0] == bond->ends[1]) b->wrong = 1;
  bond->conjugated = flags >> 5 & 1;
  bond->stereo = bond->label = 0;
  bond->beside[0] = bond->beside[1] = 0;
  bond->kind = byte_if(&at, flags >> 3 & 1, SINGLE);
  at += flags >> 2 & 1; /* its direction */
  b->at = at;
  if (!(flags & 0x02)) return DONE;
  bond->stereo = byte(b);
  int count = byte(b);
  for (int k = 0; k < count; k++) {
    uint32_t atom = atom_below(b, n);
    if (count == 2) bond->beside[k] = atom;
  }
  return bond->stereo ? HAS_STEREO : DONE;
}

/* The neighbours of every atom: those of atom i are next[first[i]] to next[first[i + 1]]. */
static void join(const Bond *bonds, uint32_t m, uint32_t n, uint32_t *first, uint32_t *next) {
  memset(first, 0, (n + 2) * sizeof *first);
  for (uint32_t k = 0; k < m; k++)
    for (int end = 0; end < 2; end++) first[bonds[k].ends[end] + 2]++;
  for (uint32_t i = 0; i < n; i++) first[i + 2] += first[i + 1];
  for (uint32_t k = 0; k < m; k++)
    for (int end = 0; end < 2; end++) next[first[bonds[k].ends[end] + 1]++] = bonds[k].ends[!end];
}

/* Marks the atoms of all rings, and their bonds among the pairs that are BONDED. */
static void read_rings(Bytes *b, size_t n, uint8_t *facts, uint8_t *pairs) {
  uint8_t how = byte(b); /* they were found; whichever, they are those that RDKit holds */
  if (how != 0x14 && (how < 0x42 || how > 0x44)) b->wrong = 1;
  for (uint32_t rings = word(b); rings && !b->wrong; rings--) {
    uint32_t size = place(b);
    if (size < 3) b->wrong = 1;
    if (b->wrong) return;
    uint8_t mark = 1 << ((size < 8 ? size : 8) - 3);
    uint32_t start = atom_below(b, n), here = start;
    for (uint32_t k = 1; k <= size && !b->wrong; k++) {
      uint32_t there = k < size ? atom_below(b, n) : start;
      facts[here * COLUMNS + RINGS] |= mark;
      if (!pairs[here * n + there]) b->wrong = 1;
      pairs[here * n + there] |= IN_RING;
      pairs[there * n + here] |= IN_RING;
      here = there;
    }
  }
}

/* Path lengths of fewer than 255 atoms, atom by atom: the first bond to an earlier atom makes a row of its row; each
 * further one may shorten the way between any two. No branch depends on what the molecule looks like, and rows are
 * vectors. */
enum { LANES = 32 };

static inline uint8_t smaller(uint8_t x, uint8_t y) { return x < y ? x : y; }

static void find_paths(size_t n, const uint32_t *first, const uint32_t *next, uint8_t *rows, uint8_t *paths) {
  size_t wide = (n + LANES - 1) / LANES * LANES;
  memset(rows, APART, wide * n);
  for (size_t i = 0; i < n; i++) {
    uint8_t *row = rows + i * wide;
    row[i] = 0;
    int begun = 0;
    for (uint32_t s = first[i]; s < first[i + 1]; s++) {
      if (next[s] > i) continue;
      const uint8_t *other = rows + next[s] * wide;
      if (!begun) {
        for (size_t j = 0; j < wide; j++) row[j] = smaller(other[j], 254) + 1;
        row[i] = 0;
        for (size_t j = 0; j < i; j++) rows[j * wide + i] = row[j];
        begun = 1;
        continue;
      }
      uint8_t from_here[256], from_there[256];
      memcpy(from_here, row, wide);
      memcpy(from_there, other, wide);
      for (size_t x = 0; x <= i; x++) {
        uint8_t *to = rows + x * wide, here = smaller(from_here[x], 254) + 1, there = smaller(from_there[x], 254) + 1;
        for (size_t j = 0; j < wide; j++) {
          uint8_t by_here = smaller(from_there[j], 255 - here) + here;
          uint8_t by_there = smaller(from_here[j], 255 - there) + there;
          to[j] = smaller(to[j], smaller(by_here, by_there));
        }
      }
    }
  }
  for (size_t i = 0; i < n; i++) memcpy(paths + i * n, rows + i * wide, n);
}

/* The same of more atoms, where paths may be longer than a byte can say: breadth first, from every atom. */
static void find_long_paths(size_t n, const uint32_t *first, const uint32_t *next, uint32_t *queue, uint8_t *paths) {
  memset(paths, APART, n * n);
  for (uint32_t from = 0; from < n; from++, paths += n) {
    uint32_t done = 0, found = 1;
    queue[0] = from;
    paths[from] = 0;
    while (done < found) {
      uint32_t i = queue[done++];
      uint8_t length = paths[i] < MAX_PATH ? paths[i] + 1 : MAX_PATH;
      for (uint32_t s = first[i]; s < first[i + 1]; s++)
        if (paths[next[s]] == APART) {
          paths[next[s]] = length;
          queue[found++] = next[s];
        }
    }
  }
}

/* What is needed on the way, in one piece of memory. */
typedef struct {
  Bond *bonds;      /* (m,) */
  uint32_t *first;  /* (n + 2,) */
  uint32_t *next;   /* (2 m,) */
  uint32_t *queue;  /* (n,) */
  uint8_t *facts;   /* (n, COLUMNS) */
  uint8_t *rows;    /* of path lengths, where they are found row by row */
} Room;

static int read_all(const Tables *t, Bytes *b, size_t n, uint32_t m, Room r, uint8_t *codes) {
  int found = DONE;
  for (size_t i = 0; i < n && !b->wrong; i++) {
    int this = read_atom(b, r.facts + i * COLUMNS);
    if (this == NOT_COVERED && !b->wrong) return this;
    found |= this;
  }
  if (byte(b) != 0x0b) b->wrong = 1;
  for (uint32_t k = 0; k < m && !b->wrong; k++) found |= read_bond(b, r.bonds + k, n);
  if (b->wrong) return NOT_UNDERSTOOD;

  uint8_t *of_pairs = codes + n * t->features, *paths = of_pairs + n * n;
  memset(of_pairs, 0, n * n);
  for (uint32_t k = 0; k < m; k++) {
    size_t i = r.bonds[k].ends[0], j = r.bonds[k].ends[1];
    of_pairs[i * n + j] = of_pairs[j * n + i] = BONDED;
  }
  read_rings(b, n, r.facts, of_pairs);
  if (b->wrong) return NOT_UNDERSTOOD;

  join(r.bonds, m, n, r.first, r.next);
  if (found == HAS_STEREO && find_labels(n, m, r.facts, r.bonds, r.first, r.next, of_pairs)) found = DONE;

  int covered = 1;
  for (uint32_t k = 0; k < m; k++) {
    size_t i = r.bonds[k].ends[0], j = r.bonds[k].ends[1];
    int in_ring = of_pairs[i * n + j] / IN_RING;
    const uint8_t *pair = t->pairs + (((r.bonds[k].kind * 2 + in_ring) * 2 + r.bonds[k].conjugated) * 3 + r.bonds[k].label) * 2;
    covered &= pair[0] != NONE;
    of_pairs[i * n + j] = pair[0];
    of_pairs[j * n + i] = pair[1];
  }
  for (size_t i = 0; i < n; i++) of_pairs[i * n + i] = t->self;

  for (size_t i = 0; i < n; i++, codes += t->features) {
    uint8_t *known = r.facts + i * COLUMNS;
    unsigned hydrogens = known[HYDROGENS], degree = r.first[i + 1] - r.first[i];
    for (uint32_t s = r.first[i]; s < r.first[i + 1]; s++) hydrogens += r.facts[r.next[s] * COLUMNS + ELEMENT] == 1;
    known[HYDROGENS] = hydrogens < 255 ? hydrogens : 255;
    known[DEGREE] = degree < 255 ? degree : 255;
    for (int64_t f = 0; f < t->features; f++) {
      codes[f] = t->atoms[f * 256 + known[t->fact[f]]];
      covered &= codes[f] != NONE;
    }
  }
  if (!covered) return NOT_COVERED;
  if (n < 255) find_paths(n, r.first, r.next, r.rows, paths);
  else find_long_paths(n, r.first, r.next, r.queue, paths);
  return found;
}

/* The codes of a molecule of n atoms: (n, features) of atoms, (n, n) of pairs, (n, n) path lengths, one after the
 * other. They are whole for DONE and HAS_STEREO only; the latter leaves all labels of stereochemistry at none, for there
 * are some that need more than the first rule. */
int molattn_read(const Tables *t, const uint8_t *binary, int64_t length, int64_t n, uint8_t *codes) {
  if (n < 1 || n > INT32_MAX / 64 || length < HEADER || memcmp(binary, t->start, HEADER - 10)) return NOT_UNDERSTOOD;
  Bytes b = {binary + HEADER - 10, binary + length, n > 255, 0};
  uint32_t atoms = word(&b), m = word(&b);
  /* Six bytes of an atom and three of a bond are the least. */
  if (atoms != n || n * 6 > length || m > (uint64_t)length / 3 || byte(&b) != 0x80 || byte(&b) != 0x01)
    return NOT_UNDERSTOOD;
  size_t words = 2 * (size_t)n + 2 + 2 * (size_t)m, wide = n < 255 ? (n + LANES - 1) / LANES * LANES : 0;
  Bond *bonds = malloc(m * sizeof(Bond) + words * sizeof(uint32_t) + n * (COLUMNS + wide));
  if (bonds == NULL) return NOT_UNDERSTOOD;
  uint32_t *first = (uint32_t *)(bonds + m);
  uint8_t *facts = (uint8_t *)(first + words);
  Room room = {bonds, first, first + n + 2, first + n + 2 + 2 * m, facts, facts + n * COLUMNS};
  memset(facts, 0, n * COLUMNS);
  int found = read_all(t, &b, n, m, room, codes);
  free(bonds);
  return b.wrong ? NOT_UNDERSTOOD : found;
}
