/* What the importers share: one parsed line. Private to src/trace. */
#ifndef QUIRE_TRACE_IMPORT_INT_H
#define QUIRE_TRACE_IMPORT_INT_H

#include "trace/import.h"

#define IMPORT_MAX_SIZE 4096U /* bytes of one access: XSAVE's largest area is below that */

enum import_kind { ITEM_NONE, ITEM_INSN, ITEM_LOAD, ITEM_STORE, ITEM_MODIFY };

struct import_item {
	enum import_kind kind;
	uint64_t addr, size;
};

/* Parse one line without its line end. 0, or -EINVAL with what is allowed in *ret_allowed (static text). */
int import_lackey_line(const char *line, struct import_item *ret, const char **ret_allowed);
int import_text_line(const char *line, struct import_item *ret, const char **ret_allowed);

/* Hexadecimal and decimal numbers; NULL when there is none or it does not fit, else what follows it. */
const char *import_hex(const char *p, uint64_t *ret);
const char *import_dec(const char *p, uint64_t *ret);
/* Is the access one that a word can hold? Sets *ret_allowed when not. */
int import_check(const struct import_item *it, const char **ret_allowed);

#endif
