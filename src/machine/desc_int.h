/*
 * What the files of the machine descriptions share.
 *
 *   desc_keys.h   the one table of keys: reader, checks, defaults, 'did you mean' and the page in docs/ come from it
 *   desc_units.c  numbers with units, to integers and back, exactly
 *   desc_yaml.c   YAML events to values by key, each with its place in the file
 *   desc_check.c  what no single value can say: that the values fit together
 *   desc_near.c   this computer, and which shipped machine is most like it
 *   desc.c        the functions of desc.h
 */
#ifndef QUIRE_MACHINE_DESC_INT_H
#define QUIRE_MACHINE_DESC_INT_H

#include "machine/desc.h"
#include "machine/desc_keys.h"

/* The shipped machine files, generated at build time by scripts/embed-machines, in alphabetical order. */
struct machine_file {
	const char *name, *text;
};
extern const struct machine_file machine_files[];
extern const unsigned nr_machine_files;

/* ---- desc_units.c ---- */

enum desc_unit {
	UNIT_TEXT,
	UNIT_COUNT,
	UNIT_SIZE,  /* bytes: 48K, 2M, 64G, 6T (powers of 1024) */
	UNIT_TIME,  /* picoseconds: 500ps, 90ns, 1.5us, 3ms, or 4cycles */
	UNIT_FREQ,  /* kHz: 2300MHz, 2.3GHz */
	UNIT_BW,    /* MB/s: 800MB/s, 60GB/s (powers of 1000) */
	UNIT_RATIO, /* thousandths: 2, 1.75 */
	UNIT_BOOL,
	UNIT_REPL,
	UNIT_INCL,
	UNIT_SOCKET, /* a socket's number, or none: stored as -1 */
	UNIT_LIST,   /* distances */
	NR_UNITS
};

/* freq_khz prices 'cycles' (0: they are not known yet and an error). 0, -EINVAL: no such number, -ERANGE: too fine or too big. */
int desc_parse(enum desc_unit u, const char *text, uint64_t freq_khz, uint64_t *ret);
/* The shortest text that desc_parse reads back as v. buf: at least 32 bytes. Returns buf. */
const char *desc_format(enum desc_unit u, uint64_t v, char *buf, size_t len);
/* "a size such as 48K", for messages and the documentation. */
const char *desc_unit_help(enum desc_unit u);

/* ---- desc_keys: the table of desc_keys.h with places in the structures ---- */

struct desc_key {
	const char *path; /* "cache.l1d.size"; of a node's keys without "nodes." */
	enum desc_unit unit;
	uint16_t offset, width;
	enum desc_need need;
	uint64_t min, max, def;
	const char *help;
};

enum desc_key_id {
#define K(id, path, unit, field, need, min, max, def, help) KEY_##id,
	DESC_KEYS(K)
#undef K
	NR_KEYS
};

enum node_key_id {
#define K(id, path, unit, field, need, min, max, def, help) NODE_##id,
	NODE_KEYS(K)
#undef K
	NR_NODE_KEYS
};

extern const struct desc_key desc_keys[NR_KEYS];
extern const struct desc_key node_keys[NR_NODE_KEYS];

/* "1 to 8", "a frequency such as 2.3GHz, from 100MHz to 10GHz", "yes or no": what a key allows. */
void desc_allowed(const struct desc_key *k, char *buf, size_t len);

/* ---- desc_yaml.c ---- */

struct desc_place {
	uint32_t line, col; /* from 1; line 0: not in the file */
};

/* One value as it stands in the file. */
struct desc_raw {
	char *text; /* NULL: not given */
	struct desc_place at;
};

/* A file being read. */
struct desc_reader {
	const char *file;
	struct machine_desc *d;
	char *err;
	size_t errlen;
	struct desc_raw raw[NR_KEYS];
	struct desc_place section[NR_KEYS]; /* by the section's first key */
	uint32_t nr_nodes;
	struct {
		struct desc_place at;
		struct desc_raw raw[NR_NODE_KEYS];
		uint32_t nr_distances;
		char *distance[MACHINE_MAX_NODES];
		struct desc_place distance_at[MACHINE_MAX_NODES];
	} node[MACHINE_MAX_NODES];
};

/* Fills raw. 0, -EINVAL with err, -ENOMEM. */
int desc_read_yaml(struct desc_reader *r, const char *text, size_t len);
/* One line into r->err: "FILE:LINE:COL: key: value: allowed". key and value may be NULL. Always -EINVAL. */
int desc_fail(struct desc_reader *r, struct desc_place at, const char *key, const char *value, const char *allowed, ...)
	ATTR_PRINTF(5, 6);
void desc_reader_free(struct desc_reader *r);

/* ---- desc_check.c ---- */

/* raw to r->d, with ranges and defaults; then the cross-checks. 0 or -EINVAL with err. */
int desc_convert(struct desc_reader *r);
int desc_check(struct desc_reader *r);

/* ---- desc.c ---- */

/* As machine_desc_load, from memory. file: the name to be shown, from which the machine's name is made. */
int machine_desc_parse(const char *file, const char *text, size_t len, struct machine_desc *d, char *err, size_t errlen);

/* ---- desc_near.c ---- */

struct computer {
	bool arm;
	unsigned cpus, nodes; /* nodes: with memory */
	uint64_t llc_bytes, l2_bytes, memory;
};

/* How unlike they are; 0 is the same. The rule is in desc_near.c and docs/machine-files.md. */
uint64_t desc_unlikeness(const struct computer *c, const struct machine_desc *d);
/* Reads /proc and /sys below root ("" on a real computer; a directory in tests). What cannot be read stays 0. */
void computer_probe(const char *root, struct computer *ret);
const char *desc_nearest(const struct computer *c);

#endif
