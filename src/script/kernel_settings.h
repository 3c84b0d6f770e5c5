/*
 * Settings of the kernel underneath, by the names that they have here. They are read everywhere. They are written only where the computer is a guest
 * that was booted for this (script_kernel_owned), and put back when the run ends.
 */
#ifndef QUIRE_SCRIPT_KERNEL_SETTINGS_H
#define QUIRE_SCRIPT_KERNEL_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

#define KERNEL_SETTINGS 32

/* What was written, with the values from before. All zeroes: nothing. */
struct kernel_settings {
	struct {
		char path[160], before[64];
	} v[KERNEL_SETTINGS];
	unsigned nr;
};

/*
 * Make a setting so. 0; -EOPNOTSUPP with one line in err: there is none of the name here, it is another and may not be written (`may_write`), or the
 * kernel does not take the value.
 */
ATTR_MUST_CHECK int kernel_settings_set(struct kernel_settings *s, const char *name, const char *value, bool may_write, char *err, size_t errlen);
/* All as before, the last one first. */
void kernel_settings_restore(struct kernel_settings *s);

#endif
