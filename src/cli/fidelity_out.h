/* quire fidelity: what it prints. */
#ifndef QUIRE_CLI_FIDELITY_OUT_H
#define QUIRE_CLI_FIDELITY_OUT_H

#include <jansson.h>

#include "fidelity/fidelity.h"

/* Sums of one call group (a file of scripts). */
struct fid_group {
	char name[64];
	uint64_t scripts, steps, equal, declared, undeclared, skipped;
};

/* A step in words, with what differs; all: also steps that are equal. */
void fid_print_step(FILE *f, const struct fidelity_step *st, bool all);
/* The first difference of a script: what was called, what each side did. */
void fid_print_first(FILE *f, const char *name, const char *machine, const struct fidelity_result *r);
void fid_print_groups(FILE *f, const struct fid_group *g, size_t nr, bool bold);
void fid_print_declared(FILE *f, const uint64_t *by_declared);

json_t *fid_result_json(const char *name, const char *machine, const struct fidelity_result *r);
json_t *fid_group_json(const struct fid_group *g);
json_t *fid_kernel_json(const struct fidelity_kernel *k);
json_t *fid_seen_json(const struct fidelity_seen *s);

#endif
