/* CIP labels of the stereocentres and double bonds that CIP rule 1 decides, and of the pseudoasymmetric centres between
 * two branches that are mirror images, as in a ring, which rule 5 decides. All are as RDKit's new CIP labeler
 * (rdCIPLabeler) assigns them; a molecule with any others is left to RDKit.
 *
 * Rule 1a ranks the substituents of an atom by atomic numbers, sphere by sphere, over the tree of all paths away from it
 * (the hierarchical digraph: Hanson et al., J. Chem. Inf. Model. 2018, 58, 1755,
 * https://doi.org/10.1021/acs.jcim.8b00324). Double bonds and ring closures add duplicates of atoms to that tree. If
 * several Kekule structures differ in them, in rings with heteroatoms, the atomic number of a duplicate is the mean
 * over the neighbours; if they still differ, nothing is decided. Rule 1b ranks ring closures by the depth of the atom
 * that they duplicate. Rule 5 ranks R above S; both are labels by the same tree with the stereocentre as its root. */

#ifndef MOLATTN_CIP_H
#define MOLATTN_CIP_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The properties of an atom: binary.PROPERTIES; then those that only the labels need. */
enum { ELEMENT, DEGREE, HYDROGENS, CHARGE, HYBRIDIZATION, AROMATIC, RINGS, RADICALS, CIP, NUM_PROPERTIES };
/* The last two: the hydrogens written in brackets, and all hydrogens that are not atoms. */
enum { TAG = NUM_PROPERTIES, VALENCE, EXPLICIT_HYDROGENS, TOTAL_HYDROGENS, NUM_COLUMNS };
enum { NO_LABEL, LABEL_R, LABEL_S, PSEUDO_R, PSEUDO_S }; /* of an atom */
enum { LABEL_E = 1, LABEL_Z };       /* of a bond */
enum { DOWN = 3, UP = 4 }; /* the direction of a bond, from its first to its second atom */
enum { CW = 1, CCW = 2, STEREO_Z = 2, STEREO_E, STEREO_CIS, STEREO_TRANS };
enum { DOUBLE = 2, TRIPLE, QUADRUPLE, AROMATIC_BOND = 12, DATIVE = 17 };
enum { IS_BONDED = 1, IN_RING = 2 }; /* flags of a pair */

typedef struct {
  uint32_t atoms[2];
  uint32_t stereo_atoms[2]; /* the neighbour of each end that `stereo` refers to */
  uint8_t type, conjugated, stereo, label, direction;
} Bond;

/* Larger molecules are left to RDKit. Its labeler gives up after some number of comparisons, which it needs only for
 * molecules for which these are more than MAX_COMPARISONS. */
enum { MAX_NODES = 4096, MAX_DEPTH = 200, MAX_PAIRS = 2048, MAX_COMPARISONS = 9000, MAX_BRANCHES = 12 };
enum { MAX_ATOMS = 4096 };
enum { NUMBER_SCALE = 12 }; /* makes atomic numbers and their means over up to four neighbours integers */

/* A node of the tree: an atom reached by one path, or a duplicate that ends a path. `first` is its first child and
 * `branches` their number, once it is expanded. `below` is the child on the way to another root, see `change_root`;
 * else 0. `closure` is the rank of a ring closure by rule 1b: the higher, the closer to the root the atom is that it
 * duplicates; 0 for other nodes. */
typedef struct {
  uint16_t atom, number, parent, first, below, depth, closure;
  uint8_t branches, leaf, expanded;
} Node;
typedef struct {
  size_t n;
  uint32_t m;
  uint8_t *properties;                /* (n, NUM_COLUMNS) */
  Bond *bonds;
  const uint32_t *first, *neighbours; /* see `find_neighbours` */
  const uint8_t *pairs;               /* (n, n) */
  uint32_t *bond_of;                  /* (2 m,) the bonds to `neighbours` */
  uint32_t *component, *queue;        /* (n,) each */
  uint16_t *mean_number;              /* (n,) the atomic number of all duplicates at an atom, or 0 */
  uint16_t *duplicate;                /* (n,) that of the duplicate for its double bond in an aromatic ring, or 0 */
  uint8_t *order;                     /* (m,) 1 where it is aromatic */
  uint8_t *needs_double, *candidates; /* (n,) whether the atom has such a double bond; how many bonds it may be */
  uint8_t *resonant, *count;          /* (n,) */
  Node *nodes;
  uint16_t (*pair_stack)[2];
  int num_nodes, num_pairs, comparisons_left, failed;
  int perceived; /* whether RDKit has perceived the stereochemistry */
} Labeler;

/* Finds the bond orders, 1 for aromatic bonds, and the atoms with a double bond among these; returns 0 for bonds of
 * other types. */
static int find_orders(Labeler *w) {
  for (uint32_t k = 0; k < w->m; k++) switch (w->bonds[k].type) {
      case 1:
      case AROMATIC_BOND: w->order[k] = 1; break;
      case DOUBLE:
      case TRIPLE:
      case QUADRUPLE: w->order[k] = w->bonds[k].type; break;
      case DATIVE: w->order[k] = 0; break;
      default: return 0;
    }
  for (size_t i = 0; i < w->n; i++) {
    const uint8_t *properties = w->properties + i * NUM_COLUMNS;
    int aromatic = 0, dative = 0, valence = properties[VALENCE] - properties[EXPLICIT_HYDROGENS];
    for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++) {
      aromatic |= w->bonds[w->bond_of[s]].type == AROMATIC_BOND;
      dative |= !w->order[w->bond_of[s]];
      valence -= w->order[w->bond_of[s]];
    }
    w->needs_double[i] = 0;
    if (!aromatic) continue;
    if (dative || valence < 0 || valence > 1) return 0;
    w->needs_double[i] = valence;
  }
  return 1;
}

/* Finds the ring atoms with delocalized double bonds, as RDKit marks them before it takes means; returns 0 for cases
 * that RDKit treats specially. */
static int find_resonant(Labeler *w) {
  int found = 0;
  for (size_t i = 0; i < w->n; i++) {
    const uint8_t *properties = w->properties + i * NUM_COLUMNS;
    int singles = properties[TOTAL_HYDROGENS], doubles = w->needs_double[i], others = 0, ring = 0;
    for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++) {
      int order = w->order[w->bond_of[s]];
      singles += order == 1;
      doubles += order == 2;
      others += order != 1 && order != 2;
      ring |= w->pairs[i * w->n + w->neighbours[s]] & IN_RING;
    }
    singles -= w->needs_double[i];
    w->resonant[i] = 0;
    if (!ring || others) continue;
    int charge = (int8_t)properties[CHARGE];
    switch (properties[ELEMENT]) {
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

/* Finds the mean atomic numbers over resonant neighbours in each ring system, if they are not integers. */
static void find_mean_numbers(Labeler *w) {
  uint32_t *queue = w->queue, waiting = 0, component = 0;
  memset(w->mean_number, 0, w->n * sizeof *w->mean_number);
  for (size_t i = 0; i < w->n; i++) {
    w->count[i] = 0;
    for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++) w->count[i] += w->resonant[w->neighbours[s]];
    if (w->count[i] == 1) queue[waiting++] = i;
  }
  /* An atom with one resonant neighbour is not resonant; each atom is queued at most once. */
  for (uint32_t done = 0; done < waiting; done++) {
    uint32_t i = queue[done];
    if (!w->resonant[i]) continue;
    w->resonant[i] = 0;
    for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++)
      if (--w->count[w->neighbours[s]] == 1) queue[waiting++] = w->neighbours[s];
  }
  memset(w->component, 0, w->n * sizeof *w->component);
  for (size_t start = 0; start < w->n; start++) {
    if (!w->resonant[start] || w->component[start]) continue;
    uint32_t done = 0, found = 1;
    queue[0] = start;
    w->component[start] = ++component;
    while (done < found) {
      uint32_t i = queue[done++];
      for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++) {
        uint32_t j = w->neighbours[s];
        if (!w->resonant[j] || w->component[j] || !(w->pairs[i * w->n + j] & IN_RING)) continue;
        w->component[j] = component;
        queue[found++] = j;
      }
    }
  }
  for (size_t i = 0; i < w->n; i++) {
    int sum = 0, over = 0;
    for (uint32_t s = w->first[i]; w->component[i] && s < w->first[i + 1]; s++)
      if (w->component[w->neighbours[s]] == w->component[i]) {
        sum += w->properties[w->neighbours[s] * NUM_COLUMNS + ELEMENT];
        over++;
      }
    if (over && sum % over) w->mean_number[i] = sum * NUMBER_SCALE / over;
  }
}

/* Whether the bond from atom i to neighbours[s] is double in some Kekule structure. */
static inline int may_be_double(const Labeler *w, uint32_t s, uint32_t i) {
  return w->needs_double[i] && w->needs_double[w->neighbours[s]] && w->bonds[w->bond_of[s]].type == AROMATIC_BOND;
}

/* Finds the duplicate at each atom with a double bond in an aromatic ring: the mean, or the only element to which the
 * bond may be; returns 0 if there are several. */
static int find_duplicates(Labeler *w) {
  uint32_t *queue = w->queue, waiting = 0;
  memset(w->duplicate, 0, w->n * sizeof *w->duplicate);
  for (size_t i = 0; i < w->n; i++) {
    w->candidates[i] = 0;
    for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++) w->candidates[i] += may_be_double(w, s, i);
    if (w->needs_double[i] && !w->candidates[i]) return 0;
    if (w->candidates[i] == 1) queue[waiting++] = i;
  }
  /* An atom with one candidate has its double bond to that. */
  for (uint32_t done = 0; done < waiting; done++) {
    uint32_t i = queue[done];
    if (w->duplicate[i]) continue;
    uint32_t j = i;
    for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++)
      if (may_be_double(w, s, i) && !w->duplicate[w->neighbours[s]]) j = w->neighbours[s];
    if (j == i) return 0;
    w->duplicate[i] = NUMBER_SCALE * w->properties[j * NUM_COLUMNS + ELEMENT];
    w->duplicate[j] = NUMBER_SCALE * w->properties[i * NUM_COLUMNS + ELEMENT];
    if (!w->duplicate[i] || !w->duplicate[j]) return 0; /* a dummy atom */
    for (uint32_t s = w->first[j]; s < w->first[j + 1]; s++)
      if (may_be_double(w, s, j) && !w->duplicate[w->neighbours[s]] && --w->candidates[w->neighbours[s]] == 1)
        queue[waiting++] = w->neighbours[s];
  }
  /* From here on, whether the double bond of an atom is ambiguous. */
  for (size_t i = 0; i < w->n; i++) w->candidates[i] = w->needs_double[i] && !w->duplicate[i];
  for (size_t i = 0; i < w->n; i++) {
    if (!w->needs_double[i]) continue;
    if (w->mean_number[i]) w->duplicate[i] = w->mean_number[i];
    if (w->duplicate[i]) continue;
    int element = 0;
    for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++) {
      if (!may_be_double(w, s, i) || !w->candidates[w->neighbours[s]]) continue;
      int other = w->properties[w->neighbours[s] * NUM_COLUMNS + ELEMENT];
      if (element && other != element) return 0;
      element = other;
    }
    if (!element) return 0;
    w->duplicate[i] = NUMBER_SCALE * element;
  }
  return 1;
}

/* Adds a child: the next atom of a path, or a leaf; sets `failed` if the tree becomes too large. */
static void add_node(Labeler *w, int parent, uint32_t atom, unsigned number, int closure, int leaf) {
  Node *parent_node = w->nodes + parent;
  if (w->num_nodes == MAX_NODES || parent_node->depth == MAX_DEPTH || parent_node->branches == MAX_BRANCHES) {
    w->failed = 1;
    return;
  }
  w->nodes[w->num_nodes++] = (Node){.atom = atom, .number = number, .parent = parent, .depth = parent_node->depth + 1,
                                    .closure = closure, .leaf = leaf, .expanded = leaf};
  parent_node->branches++;
}

/* The rank by rule 1b of a duplicate of the atom at a node or one of its ancestors; 0 if none of them has that atom. */
static int get_closure(const Labeler *w, int node, uint32_t atom) {
  while (w->nodes[node].atom != atom && node) node = w->nodes[node].parent;
  return w->nodes[node].atom == atom ? 1 + MAX_DEPTH - w->nodes[node].depth : 0;
}

/* Adds the children of a node: its other neighbours, and duplicates for double bonds, ring closures and hydrogens. */
static void expand_node(Labeler *w, int node) {
  Node *current = w->nodes + node;
  uint32_t i = current->atom, origin = w->nodes[0].atom;
  current->expanded = 1;
  current->first = w->num_nodes;
  for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++) {
    uint32_t j = w->neighbours[s];
    unsigned number = NUMBER_SCALE * w->properties[j * NUM_COLUMNS + ELEMENT];
    unsigned duplicate = w->mean_number[i] ? w->mean_number[i] : number;
    int is_parent = node && w->nodes[current->parent].atom == j, duplicates = w->order[w->bond_of[s]] - 1;
    if (!is_parent) {
      int closure = get_closure(w, node, j);
      add_node(w, node, j, number, closure, closure > 0);
    }
    if (!node || (is_parent && j == origin)) duplicates = 0;
    while (duplicates-- > 0) add_node(w, node, j, duplicate, 0, 1);
  }
  if (w->duplicate[i] && node) add_node(w, node, i, w->duplicate[i], 0, 1);
  for (int k = w->properties[i * NUM_COLUMNS + TOTAL_HYDROGENS]; k > 0; k--) add_node(w, node, i, NUMBER_SCALE, 0, 1);
}

/* Lists the branches of a node away from the current root in `to`, and returns their number. */
static int get_branches(Labeler *w, int node, uint16_t *to) {
  if (!w->nodes[node].expanded) expand_node(w, node);
  if (w->failed) return 0;
  const Node *current = w->nodes + node;
  int count = 0;
  for (int k = 0; k < current->branches; k++) {
    int branch = current->first + k;
    if (branch != current->below) to[count++] = branch;
    else if (node) to[count++] = current->parent;
  }
  return count;
}

/* Makes a node the root of the tree, or undoes it. */
static void change_root(Labeler *w, int node, int back) {
  for (int below = node; below; below = w->nodes[below].parent)
    w->nodes[w->nodes[below].parent].below = back ? 0 : below;
}

typedef int (*Comparison)(Labeler *, int, int);

/* Compares two nodes alone, by rule 1a: 1, 0 or -1. */
static int compare_numbers(Labeler *w, int a, int b) {
  return (w->nodes[a].number > w->nodes[b].number) - (w->nodes[a].number < w->nodes[b].number);
}

/* Compares two nodes alone, by rules 1a and 1b. */
static int compare_nodes(Labeler *w, int a, int b) {
  int order = compare_numbers(w, a, b);
  return order ? order : (w->nodes[a].closure > w->nodes[b].closure) - (w->nodes[a].closure < w->nodes[b].closure);
}

/* Sorts branches by descending rank; returns whether all ranks differ. */
static int sort_branches(Labeler *w, uint16_t *branches, int count, Comparison compare) {
  int differ = 1;
  for (int i = 1; i < count; i++)
    for (int j = i; j > 0; j--) {
      int order = compare(w, branches[j - 1], branches[j]);
      differ &= order != 0;
      if (order >= 0) break;
      uint16_t lower = branches[j - 1];
      branches[j - 1] = branches[j];
      branches[j] = lower;
    }
  return differ;
}

static void push_pair(Labeler *w, int a, int b) {
  if (w->num_pairs == MAX_PAIRS) {
    w->failed = 1;
    return;
  }
  w->pair_stack[w->num_pairs][0] = a;
  w->pair_stack[w->num_pairs++][1] = b;
}

/* Compares the subtrees of two nodes sphere by sphere: 1, 0 or -1. The branches of each node are sorted by `compare`,
 * those that it does not distinguish by `compare_deeply`. */
static int compare_spheres(Labeler *w, int a, int b, Comparison compare, Comparison compare_deeply) {
  if (w->failed || --w->comparisons_left <= 0) {
    w->failed = 1;
    return 0;
  }
  int order = compare(w, a, b), start = w->num_pairs;
  if (!order) push_pair(w, a, b);
  for (int at = start; at < w->num_pairs && !order && !w->failed; at++) {
    uint16_t ours[MAX_BRANCHES], theirs[MAX_BRANCHES];
    a = w->pair_stack[at][0], b = w->pair_stack[at][1];
    int count = get_branches(w, a, ours), other = get_branches(w, b, theirs);
    sort_branches(w, ours, count, compare);
    sort_branches(w, theirs, other, compare);
    for (int k = 0; k < count && k < other && !order; k++) order = compare(w, ours[k], theirs[k]);
    if (!order) order = (count > other) - (count < other);
    if (order) break;
    sort_branches(w, ours, count, compare_deeply);
    sort_branches(w, theirs, other, compare_deeply);
    for (int k = 0; k < count; k++) push_pair(w, ours[k], theirs[k]);
  }
  w->num_pairs = start;
  return order;
}

/* Compares the subtrees of two nodes by rule 1a. */
static int compare_trees_by_number(Labeler *w, int a, int b) {
  return compare_spheres(w, a, b, compare_numbers, compare_trees_by_number);
}

/* Compares the subtrees of two nodes by rule 1a, then by rule 1b. */
static int compare_trees(Labeler *w, int a, int b) {
  int order = compare_trees_by_number(w, a, b);
  return order || w->failed ? order : compare_spheres(w, a, b, compare_nodes, compare_trees);
}

/* Starts the tree with an atom as its root; returns 0 if the atom has a double bond in an aromatic ring. */
static int start_tree(Labeler *w, uint32_t atom) {
  w->num_nodes = 1, w->num_pairs = 0;
  w->nodes[0] = (Node){.atom = atom, .number = NUMBER_SCALE * w->properties[atom * NUM_COLUMNS + ELEMENT]};
  return !w->needs_double[atom];
}

static int is_tetrahedral(const Labeler *w, uint32_t i) {
  uint32_t degree = w->first[i + 1] - w->first[i];
  uint8_t tag = w->properties[i * NUM_COLUMNS + TAG];
  return (tag == CW || tag == CCW) && degree >= 3 && degree <= 4 && !w->needs_double[i];
}

/* The label of a stereocentre i with these branches, by descending rank. */
static int get_label(const Labeler *w, uint32_t i, const uint16_t *branches, int count) {
  uint32_t positions[4];
  int placed = 0, swaps = 0;
  for (int k = 0; k < count; k++) {
    if (w->nodes[branches[k]].leaf && !w->nodes[branches[k]].closure) continue; /* a hydrogen, which ranks last, or the duplicate of a double bond */
    uint32_t s = w->first[i];
    while (w->neighbours[s] != w->nodes[branches[k]].atom) s++;
    for (int before = 0; before < placed; before++) swaps += positions[before] > s;
    positions[placed++] = s;
  }
  return (w->properties[i * NUM_COLUMNS + TAG] == CCW) == (swaps % 2 == 0) ? LABEL_S : LABEL_R;
}

/* A hash of 64 bits. */
static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
  return x ^ x >> 32;
}

/* Hashes of a subtree of which rules 1 to 5 make no distinction: as it is, and as its mirror image. */
typedef struct {
  uint64_t as_is, mirrored;
} Hashes;

/* What `rank_mirror_images` needs to know of the nodes below two branches of the root. */
typedef struct {
  Hashes hashes[MAX_NODES]; /* while a node has none yet, the sum of those of its branches */
  uint8_t labels[MAX_NODES];
  uint16_t order[MAX_NODES]; /* the nodes below the two branches, and these, farthest from the root first */
  int count;
} Subtrees;

static uint8_t mirror(uint8_t label) { return label == LABEL_R ? LABEL_S : label == LABEL_S ? LABEL_R : label; }

/* The label, R or S, of the stereocentres in a branch that are the closest to the root; NO_LABEL if there is none or
 * they have both. */
static int find_closest_label(const Labeler *w, const Subtrees *found, int branch) {
  int label = NO_LABEL, depth = 0;
  for (int at = found->count - 1; at >= 0; at--) { /* the closest first */
    int node = found->order[at], above = node;
    if (found->labels[node] != LABEL_R && found->labels[node] != LABEL_S) continue;
    if (label && w->nodes[node].depth > depth) break;
    while (above > branch) above = w->nodes[above].parent;
    if (above != branch) continue;
    if (label && label != found->labels[node]) return NO_LABEL;
    label = found->labels[node];
    depth = w->nodes[node].depth;
  }
  return label;
}

/* Ranks the only two branches among these that rule 1 does not distinguish, by rule 5, if the stereocentres of one are
 * the mirror images of those of the other, so that rules 3 and 4 decide nothing. Returns 0 if none of rules 1 to 5
 * distinguishes them, and -1 if that is left to RDKit. */
static int rank_mirror_images(Labeler *w, const Subtrees *found, uint16_t *branches, int first) {
  int a = branches[first], b = branches[first + 1];
  const Hashes *ours = found->hashes + a, *theirs = found->hashes + b;
  if (ours->as_is == theirs->as_is) return 0;
  if (ours->as_is != theirs->mirrored) return -1;
  int label = find_closest_label(w, found, a), other = find_closest_label(w, found, b);
  if (!label || mirror(label) != other) return -1;
  if (other == LABEL_R) {
    branches[first] = b;
    branches[first + 1] = a;
  }
  return 1;
}

/* The position of the only two neighbours in a sorted list that rule 1 does not distinguish; -1 if there are others. */
static int find_equal(Labeler *w, const uint16_t *branches, int count) {
  int first = -1;
  for (int k = 0; k + 1 < count; k++) {
    if (compare_trees(w, branches[k], branches[k + 1])) continue;
    if (first >= 0) return -1;
    first = k;
  }
  return w->failed ? -1 : first;
}

/* Labels a stereocentre within the tree of another one, NO_LABEL if none of the rules decides it; returns 0 if that is
 * left to RDKit. The nodes farther from the root have their labels. */
static int label_node(Labeler *w, int node, Subtrees *found) {
  uint16_t branches[MAX_BRANCHES + 1];
  uint32_t i = w->nodes[node].atom;
  if (!is_tetrahedral(w, i)) return 0;
  int count = get_branches(w, node, branches), decided = 1;
  branches[count++] = w->nodes[node].parent;
  if (count > 4) return 0;
  change_root(w, node, 0);
  int differ = sort_branches(w, branches, count, compare_trees);
  if (!differ && !w->failed) {
    int first = count == 4 ? find_equal(w, branches, count) : -1, parent = w->nodes[node].parent;
    if (first < 0 || branches[first] == parent || branches[first + 1] == parent) decided = -1;
    else decided = rank_mirror_images(w, found, branches, first);
  }
  change_root(w, node, 1);
  if (w->failed || decided < 0) return 0;
  int label = decided ? get_label(w, i, branches, count) : NO_LABEL;
  found->labels[node] = differ || !label ? label : label == LABEL_R ? PSEUDO_R : PSEUDO_S;
  return 1;
}

/* Labels and hashes the nodes below two equal branches of the root; returns 0 if a label is left to RDKit. */
static int label_subtrees(Labeler *w, int a, int b, Subtrees *found) {
  int num_nodes = w->num_nodes; /* equal branches have been compared, and so expanded, to their ends */
  int start[MAX_DEPTH + 2] = {0}, size = 0;
  uint8_t *below = found->labels;
  for (int node = 0; node < num_nodes; node++) {
    below[node] = node == a || node == b || (node && below[w->nodes[node].parent]);
    if (below[node]) start[MAX_DEPTH - w->nodes[node].depth + 1]++, size++;
  }
  for (int k = 0; k <= MAX_DEPTH; k++) start[k + 1] += start[k];
  for (int node = 0; node < num_nodes; node++) {
    if (below[node]) found->order[start[MAX_DEPTH - w->nodes[node].depth]++] = node;
    found->labels[node] = NO_LABEL;
    found->hashes[node] = (Hashes){0, 0};
  }
  found->count = size;
  for (int at = 0; at < size; at++) {
    int node = found->order[at];
    const Node *current = w->nodes + node;
    Hashes *hashes = found->hashes + node, *sum = found->hashes + current->parent;
    if (!current->leaf && w->properties[current->atom * NUM_COLUMNS + TAG] && !label_node(w, node, found)) return 0;
    uint64_t own = (uint64_t)current->number << 32 | (uint64_t)current->closure << 16 | (uint64_t)current->leaf << 8;
    hashes->as_is = mix(hashes->as_is + mix(own | found->labels[node]));
    hashes->mirrored = mix(hashes->mirrored + mix(own | mirror(found->labels[node])));
    if (node == a || node == b) continue;
    sum->as_is += hashes->as_is;
    sum->mirrored += hashes->mirrored;
  }
  return 1;
}

/* Ranks the only two equal branches of the root as mirror images; returns 0 if that is left to RDKit. */
static int sort_mirror_images(Labeler *w, uint16_t *branches, int count) {
  Subtrees found;
  for (uint32_t k = 0; k < w->m; k++)
    if (w->bonds[k].stereo) return 0;
  int first = find_equal(w, branches, count);
  if (first < 0 || !label_subtrees(w, branches[first], branches[first + 1], &found)) return 0;
  return rank_mirror_images(w, &found, branches, first) > 0;
}

/* Labels a stereocentre; returns 0 if it is left to RDKit. */
static int label_atom(Labeler *w, uint32_t i) {
  uint16_t branches[MAX_BRANCHES];
  if (!is_tetrahedral(w, i) || !start_tree(w, i)) return 0;
  int count = get_branches(w, 0, branches);
  if (count > 4) return 0;
  int differ = sort_branches(w, branches, count, compare_trees);
  if (w->failed || (!differ && !(w->perceived && sort_mirror_images(w, branches, count)))) return 0;
  int label = get_label(w, i, branches, count);
  w->properties[i * NUM_COLUMNS + CIP] = differ ? label : label == LABEL_R ? PSEUDO_R : PSEUDO_S;
  return 1;
}

/* At one end of a double bond: 1 if `stereo_atom` ranks highest, -1 if another does; 0 if undecided. */
static int is_highest(Labeler *w, int node, uint32_t other, uint32_t stereo_atom) {
  uint16_t all[MAX_BRANCHES], branches[MAX_BRANCHES];
  uint32_t i = w->nodes[node].atom;
  int count = 0, found = get_branches(w, node, all);
  for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++)
    if (w->neighbours[s] != other && w->bonds[w->bond_of[s]].type != 1) return 0;
  for (int k = 0; k < found; k++)
    if (w->nodes[all[k]].atom != other) branches[count++] = all[k];
  if (!count || !sort_branches(w, branches, count, compare_trees) || w->failed) return 0;
  return count == 1 || w->nodes[branches[0]].atom == stereo_atom ? 1 : -1;
}

/* Labels a stereo bond; returns 0 if it is left to RDKit. */
static int label_bond(Labeler *w, Bond *bond) {
  uint32_t i = bond->atoms[0], j = bond->atoms[1];
  int cis = bond->stereo == STEREO_Z || bond->stereo == STEREO_CIS;
  if (bond->stereo < STEREO_Z || bond->stereo > STEREO_TRANS || bond->type != DOUBLE || w->needs_double[j]) return 0;
  if (bond->stereo_atoms[0] == bond->stereo_atoms[1] || !start_tree(w, i)) return 0;
  uint16_t branches[MAX_BRANCHES];
  int other_end = 0, count = get_branches(w, 0, branches);
  for (int k = 0; k < count; k++)
    if (w->nodes[branches[k]].atom == j) other_end = branches[k];
  if (!other_end) return 0;
  int side = is_highest(w, 0, j, bond->stereo_atoms[0]) * is_highest(w, other_end, i, bond->stereo_atoms[1]);
  if (!side) return 0;
  bond->label = (side > 0) == cis ? LABEL_Z : LABEL_E;
  return 1;
}

/* The neighbour at an end of a double bond to which the bond has a direction, and whether it is above that end; returns
 * 0 if there is none, -1 if two of them are on the same side. */
static int find_direction(const Labeler *w, uint32_t i, uint32_t *neighbour, int *above) {
  int found = 0;
  for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++) {
    const Bond *bond = w->bonds + w->bond_of[s];
    if (bond->direction != DOWN && bond->direction != UP) continue;
    int this = (bond->direction == UP) == (bond->atoms[0] == i);
    if (found && this == *above) return -1;
    *neighbour = w->neighbours[s], *above = this, found = 1;
  }
  return found;
}

/* Finds stereo bonds from the directions at both ends; returns 0 for cases in which RDKit's perception has exceptions:
 * in rings, which have to be large, and at ends with more than two substituents. */
static int perceive_bonds(Labeler *w) {
  for (uint32_t k = 0; k < w->m; k++) {
    Bond *bond = w->bonds + k;
    int above[2] = {0, 0}, found[2];
    if (bond->type != DOUBLE) continue;
    for (int end = 0; end < 2; end++)
      found[end] = find_direction(w, bond->atoms[end], bond->stereo_atoms + end, above + end);
    if (!found[0] || !found[1]) continue;
    if (found[0] < 0 || found[1] < 0 || w->pairs[bond->atoms[0] * w->n + bond->atoms[1]] & IN_RING) return 0;
    for (int end = 0; end < 2; end++)
      if (w->first[bond->atoms[end] + 1] - w->first[bond->atoms[end]] > 3) return 0;
    bond->stereo = above[0] == above[1] ? STEREO_CIS : STEREO_TRANS;
  }
  return 1;
}

/* Whether the neighbours of an atom other than one of them have different colours. */
static int colours_differ(const Labeler *w, const uint64_t *colours, uint32_t i, uint32_t except) {
  for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++)
    for (uint32_t r = w->first[i]; r < s; r++)
      if (w->neighbours[s] != except && w->neighbours[r] != except &&
          colours[w->neighbours[s]] == colours[w->neighbours[r]])
        return 0;
  return 1;
}

/* Whether RDKit's perception of stereochemistry keeps all chiral tags and stereo bonds. It does if the neighbours of
 * each have different colours by colour refinement (Weisfeiler-Lehman) of the elements, because atoms of different
 * colours have different ranks in RDKit. Chiral tags of other elements than carbon are left to RDKit. */
static int perception_keeps_all(const Labeler *w, uint64_t *colours) {
  uint64_t *next = colours + w->n;
  for (size_t i = 0; i < w->n; i++) {
    const uint8_t *properties = w->properties + i * NUM_COLUMNS;
    colours[i] = mix(properties[ELEMENT]);
    uint32_t degree = w->first[i + 1] - w->first[i];
    if (properties[TAG] && (properties[ELEMENT] != 6 || degree + properties[TOTAL_HYDROGENS] != 4 || degree < 3))
      return 0;
  }
  for (uint32_t k = 0; k < w->m; k++)
    if (!w->order[k]) return 0;
  for (size_t round = 0; round < w->n / 2; round++) {
    for (size_t i = 0; i < w->n; i++) {
      uint64_t sum = 0;
      for (uint32_t s = w->first[i]; s < w->first[i + 1]; s++) {
        uint32_t k = w->bond_of[s];
        sum += mix(colours[w->neighbours[s]]) * (w->bonds[k].type == AROMATIC_BOND ? 3 : 2 * w->order[k]);
      }
      next[i] = mix(sum + colours[i] + w->properties[i * NUM_COLUMNS + TOTAL_HYDROGENS]);
    }
    memcpy(colours, next, w->n * sizeof *colours);
    int differ = 1;
    for (size_t i = 0; i < w->n && differ; i++)
      differ = !w->properties[i * NUM_COLUMNS + TAG] || colours_differ(w, colours, i, i);
    for (uint32_t k = 0; k < w->m && differ; k++)
      for (int end = 0; end < 2 && w->bonds[k].stereo; end++)
        differ &= colours_differ(w, colours, w->bonds[k].atoms[end], w->bonds[k].atoms[!end]);
    if (differ) return 1;
  }
  return 0;
}

/* Labels all stereocentres and stereo bonds; returns 0, with no labels, if that is left to RDKit. */
static int assign_labels(size_t n, uint32_t m, int perceived, uint8_t *properties, Bond *bonds, const uint32_t *first,
                         const uint32_t *neighbours, const uint8_t *pairs) {
  if (n > MAX_ATOMS) return 0;
  size_t num_words = 2 * (size_t)m + 2 * n;
  /* In the order of their alignment, the largest first. */
  uint64_t *colours = malloc(2 * n * sizeof *colours + num_words * sizeof(uint32_t) + MAX_NODES * sizeof(Node) +
                             MAX_PAIRS * 2 * sizeof(uint16_t) + 2 * n * sizeof(uint16_t) + m + 4 * n);
  if (colours == NULL) return 0;
  uint32_t *bond_of = (uint32_t *)(colours + 2 * n);
  Node *nodes = (Node *)(bond_of + num_words);
  uint16_t(*pair_stack)[2] = (uint16_t(*)[2])(nodes + MAX_NODES), *mean_number = (uint16_t *)(pair_stack + MAX_PAIRS);
  uint8_t *order = (uint8_t *)(mean_number + 2 * n);
  Labeler w = {n, m, properties, bonds, first, neighbours, pairs, bond_of, bond_of + 2 * (size_t)m,
               bond_of + 2 * (size_t)m + n, mean_number, mean_number + n, order, order + m, order + m + n,
               order + m + 2 * n, order + m + 3 * n, nodes, pair_stack, 0, 0, MAX_COMPARISONS, 0, perceived};
  memcpy(w.component, first, n * sizeof *first); /* temporarily: the position of the next bond of each atom */
  for (uint32_t k = 0; k < m; k++)
    for (int end = 0; end < 2; end++) bond_of[w.component[bonds[k].atoms[end]]++] = k;
  int found = find_orders(&w) && (perceived || (perceive_bonds(&w) && perception_keeps_all(&w, colours)));
  found = found && find_resonant(&w);
  if (found) find_mean_numbers(&w);
  found = found && find_duplicates(&w);
  for (size_t i = 0; i < n && found; i++) found = !properties[i * NUM_COLUMNS + TAG] || label_atom(&w, i);
  for (uint32_t k = 0; k < m && found; k++) found = !bonds[k].stereo || label_bond(&w, bonds + k);
  free(colours);
  if (found) return 1;
  for (size_t i = 0; i < n; i++) properties[i * NUM_COLUMNS + CIP] = NO_LABEL;
  for (uint32_t k = 0; k < m; k++) bonds[k].label = 0;
  return 0;
}

#endif
