/* The two sides of a run. Private to src/fidelity. */
#ifndef QUIRE_FIDELITY_SIDES_H
#define QUIRE_FIDELITY_SIDES_H

#include "fidelity/compare.h"

/* An executor, wrapped so that what begin says is kept. The wrapper is itself an executor. */
struct fidelity_side {
	struct script_exec_ops ops;
	const struct script_exec_ops *inner_ops;
	struct script_exec *inner;
	struct fidelity_places places;
	struct script_run *run;
};

struct fidelity_sides {
	struct fidelity_side kernel, engine;
};

/* Both executors; the kernel's gets its layout from the engine's when both have begun. 0, or negative errno with one line in err. */
ATTR_MUST_CHECK int fidelity_sides_create(const struct fidelity_options *o, bool engine, struct fidelity_sides *ret, char *err,
					  size_t errlen);
/* Begin a run of s on both: -EOPNOTSUPP: one can't (err says why). */
ATTR_MUST_CHECK int fidelity_sides_begin(struct fidelity_sides *both, const struct script *s, const struct fidelity_options *o, char *err,
					 size_t errlen);
void fidelity_sides_end(struct fidelity_sides *both);
void fidelity_sides_destroy(struct fidelity_sides *both);

#endif
