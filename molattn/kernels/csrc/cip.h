/* CIP labels of the stereocentres and double bonds that the first rule decides, as RDKit's labeler gives them; a
 * molecule with any other is left to it.
 *
 * The first rule orders what hangs on an atom by atomic numbers, sphere by sphere, over the tree of all paths away from
 * it (Hanson et al., J. Chem. Inf. Model. 2018, 58, 1755, https://doi.org/10.1021/acs.jcim.8b00324). Double bonds and
 * closed rings have duplicates of atoms in that tree. Where several Kekule structures would differ in them, in rings
 * with hetero atoms, a duplicate counts as the mean of its neighbours; where they differ still, nothing is decided. */

#ifndef MOLATTN_CIP_H
#define MOLATTN_CIP_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What is known of an atom: binary.FACTS; then what only labels need. */
enum { ELEMENT, DEGREE, HYDROGENS, CHARGE, HYBRIDISATION, AROMATIC, RINGS, RADICALS, CIP, FACTS };
enum { TAG = FACTS, VALENCE, WRITTEN, HELD, COLUMNS }; /* the last: hydrogens, written in its bracket; all but atoms */
enum { NO_LABEL, LABEL_R, LABEL_S };                   /* of an atom */
enum { LABEL_E = 1, LABEL_Z };                         /* of a bond */
enum { CW = 1, CCW = 2, STEREO_Z = 2, STEREO_E, STEREO_CIS, STEREO_TRANS };
enum { DOUBLE = 2, TRIPLE, QUADRUPLE, AROMATIC_BOND = 12, DATIVE = 17 };
enum { BONDED = 1, IN_RING = 2 }; /* what is known of a pair */

typedef struct {
  uint32_t ends[2];
  uint32_t beside[2]; /* the neighbour of each end that `stereo` speaks of */
  uint8_t kind, conjugated, stereo, label;
} Bond;

/* More is left to RDKit, which gives up at 2,000 comparisons for a first try. */
enum { MOST_NODES = 2048, MOST_PAIRS = 2048, MOST_COMPARED = 500, MOST_BRANCHES = 12, MOST_ATOMS = 4096 };
enum { WHOLE = 12 }; /* atomic numbers and their means over up to four neighbours, as whole numbers */

/* A place in the tree: an atom that was reached by one path, or what ends a path. */
typedef struct {
  uint16_t atom, number, parent, first;
  uint8_t branches, leaf, expanded;
} Node;

typedef struct {
  size_t n;
  uint32_t m;
  uint8_t *known; /* (n, COLUMNS) */
  Bond *bonds;
  const uint32_t *first, *next; /* see `join` */
  const uint8_t *pairs;         /* (n, n) */
  uint32_t *by;                 /* (2 m,) the bonds to `next` */
  uint32_t *parts, *queue;      /* (n,) each */
  uint16_t *mean;               /* (n,) for all duplicates at an atom, or 0 */
  uint16_t *twin;               /* (n,) the duplicate for its double bond in an aromatic ring, or 0 */
  uint8_t *order;               /* (m,) 1 where it is aromatic */
  uint8_t *wanting, *left;      /* (n,) whether the atom has such a bond; how many it may be */
  uint8_t *resonant, *count;    /* (n,) */
  Node *nodes;
  uint16_t (*compared)[2];
  int used, top, budget, failed;
} Labels;

/* Orders of bonds, but for which of the aromatic ones are double; 0 where there are others. */
static int find_orders(Labels *w) {
  for (uint32_t k = 0; k < w->m; k++) switch (w->bonds[k].kind) {
      case 1:
      case AROMATIC_BOND: w->order[k] = 1; break;
      case DOUBLE:
      case TRIPLE:
      case QUADRUPLE: w->order[k] = w->bonds[k].kind; break;
      case DATIVE: w->order[k] = 0; break;
      default: return 0;
    }
  for (size_t i = 0; i < w->n; i++) {
    const uint8_t *known = w->known + i * COLUMNS;
    int aromatic = 0, dative = 0, valence = known[VALENCE] - known[WRITTEN];
    for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++) {
      aromatic |= w->bonds[w->by[s]].kind == AROMATIC_BOND;
      dative |= !w->order[w->by[s]];
      valence -= w->order[w->by[s]];
    }
    w->wanting[i] = 0;
    if (!aromatic) continue;
    if (dative || valence < 0 || valence > 1) return 0;
    w->wanting[i] = valence;
  }
  return 1;
}

/* Which atoms of rings share their double bonds, as RDKit marks them before it takes means; 0 for what it treats in ways
 * of its own. */
static int find_resonant(Labels *w) {
  int found = 0;
  for (size_t i = 0; i < w->n; i++) {
    const uint8_t *known = w->known + i * COLUMNS;
    int singles = known[HELD], doubles = w->wanting[i], others = 0, ring = 0;
    for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++) {
      int order = w->order[w->by[s]];
      singles += order == 1;
      doubles += order == 2;
      others += order != 1 && order != 2;
      ring |= w->pairs[i * w->n + w->next[s]] & IN_RING;
    }
    singles -= w->wanting[i];
    w->resonant[i] = 0;
    if (!ring || others) continue;
    int charge = (int8_t)known[CHARGE];
    switch (known[ELEMENT]) {
      case 6:
      case 14:
      case 32:
        if (charge == -1 && singles == 3 && !doubles) return 0;
        w->resonant[i] = !charge && singles == 2 && doubles == 1;
        break;
      case 7:
      case 15:
      case 33:
        if (charge == -1 && singles == 2 && !doubles) return 0;
        w->resonant[i] = doubles == 1 && ((!charge && singles == 1) || (charge == 1 && singles == 2));
        found |= w->resonant[i];
        break;
      case 8:
        w->resonant[i] = charge == 1 && singles == 1 && doubles == 1;
        found |= w->resonant[i];
    }
  }
  if (!found) memset(w->resonant, 0, w->n);
  return 1;
}

/* The means over resonant neighbours, in each system of rings, where they are no whole number. */
static void find_means(Labels *w) {
  uint32_t *queue = w->queue, waiting = 0, parts = 0;
  memset(w->mean, 0, w->n * sizeof *w->mean);
  for (size_t i = 0; i < w->n; i++) {
    w->count[i] = 0;
    for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++) w->count[i] += w->resonant[w->next[s]];
    if (w->count[i] == 1) queue[waiting++] = i;
  }
  /* What has one resonant neighbour is none; each atom comes to that once. */
  for (uint32_t done = 0; done < waiting; done++) {
    uint32_t i = queue[done];
    if (!w->resonant[i]) continue;
    w->resonant[i] = 0;
    for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++)
      if (--w->count[w->next[s]] == 1) queue[waiting++] = w->next[s];
  }
  memset(w->parts, 0, w->n * sizeof *w->parts);
  for (size_t begin = 0; begin < w->n; begin++) {
    if (!w->resonant[begin] || w->parts[begin]) continue;
    uint32_t done = 0, found = 1;
    queue[0] = begin;
    w->parts[begin] = ++parts;
    while (done < found) {
      uint32_t i = queue[done++];
      for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++) {
        uint32_t j = w->next[s];
        if (!w->resonant[j] || w->parts[j] || !(w->pairs[i * w->n + j] & IN_RING)) continue;
        w->parts[j] = parts;
        queue[found++] = j;
      }
    }
  }
  for (size_t i = 0; i < w->n; i++) {
    int sum = 0, over = 0;
    for (uint32_t s = w->first[i]; w->parts[i] && s < w->first[i + 1]; s++)
      if (w->parts[w->next[s]] == w->parts[i]) {
        sum += w->known[w->next[s] * COLUMNS + ELEMENT];
        over++;
      }
    if (over && sum % over) w->mean[i] = sum * WHOLE / over;
  }
}

static inline int may_pair(const Labels *w, uint32_t s, uint32_t i) {
  return w->wanting[i] && w->wanting[w->next[s]] && w->bonds[w->by[s]].kind == AROMATIC_BOND;
}

/* The duplicate at each atom with a double bond in an aromatic ring: the mean, or the only element that it may be
 * double to; 0 where it may be several. */
static int find_twins(Labels *w) {
  uint32_t *queue = w->queue, waiting = 0;
  memset(w->twin, 0, w->n * sizeof *w->twin);
  for (size_t i = 0; i < w->n; i++) {
    w->left[i] = 0;
    for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++) w->left[i] += may_pair(w, s, i);
    if (w->wanting[i] && !w->left[i]) return 0;
    if (w->left[i] == 1) queue[waiting++] = i;
  }
  /* An atom with one neighbour left is double to that. */
  for (uint32_t done = 0; done < waiting; done++) {
    uint32_t i = queue[done];
    if (w->twin[i]) continue;
    uint32_t j = i;
    for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++)
      if (may_pair(w, s, i) && !w->twin[w->next[s]]) j = w->next[s];
    if (j == i) return 0;
    w->twin[i] = WHOLE * w->known[j * COLUMNS + ELEMENT];
    w->twin[j] = WHOLE * w->known[i * COLUMNS + ELEMENT];
    if (!w->twin[i] || !w->twin[j]) return 0; /* a dummy atom */
    for (uint32_t s = w->first[j]; s < w->first[j + 1]; s++)
      if (may_pair(w, s, j) && !w->twin[w->next[s]] && --w->left[w->next[s]] == 1) queue[waiting++] = w->next[s];
  }
  for (size_t i = 0; i < w->n; i++) w->left[i] = w->wanting[i] && !w->twin[i]; /* those in rings of choice */
  for (size_t i = 0; i < w->n; i++) {
    if (!w->wanting[i]) continue;
    if (w->mean[i]) w->twin[i] = w->mean[i];
    if (w->twin[i]) continue;
    int element = 0;
    for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++) {
      if (!may_pair(w, s, i) || !w->left[w->next[s]]) continue;
      int other = w->known[w->next[s] * COLUMNS + ELEMENT];
      if (element && other != element) return 0;
      element = other;
    }
    if (!element) return 0;
    w->twin[i] = WHOLE * element;
  }
  return 1;
}

static void add_node(Labels *w, int parent, uint32_t atom, unsigned number, int leaf) {
  Node *above = w->nodes + parent;
  if (w->used == MOST_NODES || above->branches == MOST_BRANCHES) {
    w->failed = 1;
    return;
  }
  w->nodes[w->used++] = (Node){.atom = atom, .number = number, .parent = parent, .leaf = leaf, .expanded = leaf};
  above->branches++;
}

static int on_the_way(const Labels *w, int node, uint32_t atom) {
  while (w->nodes[node].atom != atom && node) node = w->nodes[node].parent;
  return w->nodes[node].atom == atom;
}

/* What follows a node: its neighbours further on, and what stands for the ends of double bonds, rings and hydrogens. */
static void expand(Labels *w, int node) {
  Node *here = w->nodes + node;
  uint32_t i = here->atom, origin = w->nodes[0].atom;
  here->expanded = 1;
  here->first = w->used;
  for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++) {
    uint32_t j = w->next[s];
    unsigned number = WHOLE * w->known[j * COLUMNS + ELEMENT], twin = w->mean[i] ? w->mean[i] : number;
    int back = node && w->nodes[here->parent].atom == j, twins = w->order[w->by[s]] - 1;
    if (!back) add_node(w, node, j, number, on_the_way(w, node, j));
    if (!node || (back && j == origin)) twins = 0;
    while (twins-- > 0) add_node(w, node, j, twin, 1);
  }
  if (w->twin[i] && node) add_node(w, node, i, w->twin[i], 1);
  for (int k = w->known[i * COLUMNS + HELD]; k > 0; k--) add_node(w, node, i, WHOLE, 1);
}

static int branches_of(Labels *w, int node, uint16_t *to) {
  if (!w->nodes[node].expanded) expand(w, node);
  if (w->failed) return 0;
  for (int k = 0; k < w->nodes[node].branches; k++) to[k] = w->nodes[node].first + k;
  return w->nodes[node].branches;
}

static inline int by_number(const Labels *w, int a, int b) {
  return (w->nodes[a].number > w->nodes[b].number) - (w->nodes[a].number < w->nodes[b].number);
}

static int by_tree(Labels *w, int a, int b);

/* The highest first; whether all differ. */
static int sort_branches(Labels *w, uint16_t *branches, int count, int (*compare)(Labels *, int, int)) {
  int differ = 1;
  for (int i = 1; i < count; i++)
    for (int j = i; j > 0; j--) {
      int order = compare ? compare(w, branches[j - 1], branches[j]) : by_number(w, branches[j - 1], branches[j]);
      differ &= order != 0;
      if (order >= 0) break;
      uint16_t lower = branches[j - 1];
      branches[j - 1] = branches[j];
      branches[j] = lower;
    }
  return differ;
}

static void push(Labels *w, int a, int b) {
  if (w->top == MOST_PAIRS) {
    w->failed = 1;
    return;
  }
  w->compared[w->top][0] = a;
  w->compared[w->top++][1] = b;
}

/* Whether all that hangs on one node is higher than what hangs on the other: 1, 0 or -1. */
static int by_tree(Labels *w, int a, int b) {
  if (w->failed || --w->budget <= 0) {
    w->failed = 1;
    return 0;
  }
  int order = by_number(w, a, b), begin = w->top;
  if (!order) push(w, a, b);
  for (int at = begin; at < w->top && !order && !w->failed; at++) {
    uint16_t ours[MOST_BRANCHES], theirs[MOST_BRANCHES];
    a = w->compared[at][0], b = w->compared[at][1];
    int count = branches_of(w, a, ours), other = branches_of(w, b, theirs);
    sort_branches(w, ours, count, NULL);
    sort_branches(w, theirs, other, NULL);
    for (int k = 0; k < count && k < other && !order; k++) order = by_number(w, ours[k], theirs[k]);
    if (!order) order = (count > other) - (count < other);
    if (order) break;
    sort_branches(w, ours, count, by_tree);
    sort_branches(w, theirs, other, by_tree);
    for (int k = 0; k < count; k++) push(w, ours[k], theirs[k]);
  }
  w->top = begin;
  return order;
}

static int begin_at(Labels *w, uint32_t atom) {
  w->used = 1, w->top = 0, w->budget = MOST_COMPARED;
  w->nodes[0] = (Node){.atom = atom};
  return !w->wanting[atom];
}

static int label_atom(Labels *w, uint32_t i) {
  uint8_t *known = w->known + i * COLUMNS;
  uint32_t neighbours = w->first[i + 1] - w->first[i], places[4];
  uint16_t branches[MOST_BRANCHES];
  if ((known[TAG] != CW && known[TAG] != CCW) || neighbours < 3 || neighbours > 4 || !begin_at(w, i)) return 0;
  int count = branches_of(w, 0, branches), held = 0, swaps = 0;
  if (count > 4 || !sort_branches(w, branches, count, by_tree) || w->failed) return 0;
  for (int k = 0; k < count; k++) {
    if (w->nodes[branches[k]].atom == i) continue; /* a hydrogen, which has the last place wherever it stands */
    uint32_t s = w->first[i];
    while (w->next[s] != w->nodes[branches[k]].atom) s++;
    for (int before = 0; before < held; before++) swaps += places[before] > s;
    places[held++] = s;
  }
  known[CIP] = (known[TAG] == CCW) == (swaps % 2 == 0) ? LABEL_S : LABEL_R;
  return 1;
}

/* At one end of a double bond: 1 where `beside` is the highest there, -1 where another is; 0 where nothing says it. */
static int highest(Labels *w, int node, uint32_t other, uint32_t beside) {
  uint16_t all[MOST_BRANCHES], branches[MOST_BRANCHES];
  uint32_t i = w->nodes[node].atom;
  int count = 0, found = branches_of(w, node, all);
  for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++)
    if (w->next[s] != other && w->bonds[w->by[s]].kind != 1) return 0;
  for (int k = 0; k < found; k++)
    if (w->nodes[all[k]].atom != other) branches[count++] = all[k];
  if (!count || !sort_branches(w, branches, count, by_tree) || w->failed) return 0;
  return count == 1 || w->nodes[branches[0]].atom == beside ? 1 : -1;
}

static int label_bond(Labels *w, Bond *bond) {
  uint32_t i = bond->ends[0], j = bond->ends[1];
  int cis = bond->stereo == STEREO_Z || bond->stereo == STEREO_CIS;
  if (bond->stereo < STEREO_Z || bond->stereo > STEREO_TRANS || bond->kind != DOUBLE || w->wanting[j]) return 0;
  if (bond->beside[0] == bond->beside[1] || !begin_at(w, i)) return 0;
  uint16_t branches[MOST_BRANCHES];
  int there = 0, count = branches_of(w, 0, branches);
  for (int k = 0; k < count; k++)
    if (w->nodes[branches[k]].atom == j) there = branches[k];
  if (!there) return 0;
  int side = highest(w, 0, j, bond->beside[0]) * highest(w, there, i, bond->beside[1]);
  if (!side) return 0;
  bond->label = (side > 0) == cis ? LABEL_Z : LABEL_E;
  return 1;
}

/* Labels all that carries stereochemistry; 0, and none, where that is left to RDKit. */
static int find_labels(size_t n, uint32_t m, uint8_t *known, Bond *bonds, const uint32_t *first, const uint32_t *next,
                       const uint8_t *pairs) {
  if (n > MOST_ATOMS) return 0;
  size_t words = 2 * (size_t)m + 2 * n;
  /* By how much each must be aligned, the most first. */
  uint32_t *by = malloc(words * sizeof *by + MOST_NODES * sizeof(Node) + MOST_PAIRS * 2 * sizeof(uint16_t) +
                        2 * n * sizeof(uint16_t) + m + 4 * n);
  if (by == NULL) return 0;
  Node *nodes = (Node *)(by + words);
  uint16_t(*compared)[2] = (uint16_t(*)[2])(nodes + MOST_NODES), *mean = (uint16_t *)(compared + MOST_PAIRS);
  uint8_t *order = (uint8_t *)(mean + 2 * n);
  Labels w = {n, m, known, bonds, first, next, pairs, by, by + 2 * (size_t)m, by + 2 * (size_t)m + n, mean, mean + n,
              order, order + m, order + m + n, order + m + 2 * n, order + m + 3 * n, nodes, compared, 0, 0, 0, 0};
  memcpy(w.parts, first, n * sizeof *first); /* for now: where the next bond of each atom goes */
  for (uint32_t k = 0; k < m; k++)
    for (int end = 0; end < 2; end++) by[w.parts[bonds[k].ends[end]]++] = k;
  int found = find_orders(&w) && find_resonant(&w);
  if (found) find_means(&w);
  found = found && find_twins(&w);
  for (size_t i = 0; i < n && found; i++) found = !known[i * COLUMNS + TAG] || label_atom(&w, i);
  for (uint32_t k = 0; k < m && found; k++) found = !bonds[k].stereo || label_bond(&w, bonds + k);
  free(by);
  if (found) return 1;
  for (size_t i = 0; i < n; i++) known[i * COLUMNS + CIP] = NO_LABEL;
  for (uint32_t k = 0; k < m; k++) bonds[k].label = 0;
  return 0;
}

#endif
