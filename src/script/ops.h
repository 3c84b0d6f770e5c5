/*
 * The table of calls: each word of the language that becomes a call, with its parameters. Parsing, printing, filling in a script_call and the
 * list of what is allowed all come from it, so a new call is one entry here and a case in each executor.
 */
#ifndef QUIRE_SCRIPT_OPS_H
#define QUIRE_SCRIPT_OPS_H

#include "script/script.h"

enum script_param_kind {
	SPARAM_NONE,     /* end of the list */
	SPARAM_INT,      /* an expression */
	SPARAM_ADDR,     /* the same; printed as an address */
	SPARAM_RANGE,    /* ADDR..END; the next two parameters are RANGE_END and RANGE_STEP. ADDR alone: one access */
	SPARAM_RANGE_END,
	SPARAM_RANGE_STEP, /* `step N` */
	SPARAM_FLAGS,    /* names or numbers joined by commas, or'ed */
	SPARAM_ENUM,     /* one name or a number */
	SPARAM_PROT,     /* none, or letters of rwx, or a number; `+growsdown`, `+growsup` may follow */
	SPARAM_NODES,    /* numbers joined by commas: bits */
	SPARAM_FILE,     /* a name that is bound to a file */
};

/* Which field of script_call a parameter fills. */
enum script_field {
	SFIELD_ADDR, SFIELD_LEN, SFIELD_ADDR2, SFIELD_LEN2, SFIELD_OFF, SFIELD_ALIGN, SFIELD_STEP, SFIELD_VALUE, SFIELD_NODES, SFIELD_PROT,
	SFIELD_FLAGS, SFIELD_MODE, SFIELD_ADVICE, SFIELD_NODE, SFIELD_WRITE, SFIELD_FILE
};

struct script_word {
	const char *name;
	uint32_t value;
};

struct script_param {
	enum script_param_kind kind;
	enum script_field field;
	const char *key;   /* KEY=VALUE, anywhere after the positional ones, optional; NULL: positional */
	bool optional;     /* positional, may be absent at the end */
	int64_t def;       /* when absent */
	const struct script_word *words; /* FLAGS, ENUM; ends with a NULL name */
};

/* What the name after the word (`fork C`) or before it (`A = mmap`) stands for. */
enum script_noun {
	SNOUN_NONE,
	SNOUN_NEW_FILE, SNOUN_NEW_PROC, SNOUN_NEW_THREAD, SNOUN_NEW_PIN, /* bound by the call */
	SNOUN_FILE, SNOUN_PROC, SNOUN_PIN,                               /* used by it */
	SNOUN_SETTING,                                                   /* two words as they stand */
};

/* What `A = CALL` binds. */
enum script_gives { SGIVES_NOTHING, SGIVES_RET, SGIVES_AREA, SGIVES_VALUE, SGIVES_COUNT };

struct script_op_info {
	const char *word, *sub; /* "mmap"; "file" "create" */
	enum script_noun noun;
	enum script_gives gives;
	const char *usage;
	struct script_param param[SCRIPT_MAX_ARGS];
};

extern const struct script_op_info script_op_table[NR_SCRIPT_OPS];

/* Words that stand for another value in a list; SPARAM_PROT's letters too. false: no such word. */
bool script_word_find(const struct script_word *w, const char *name, size_t len, uint32_t *ret);
/* Errors and signals by name. 0: no such name. NULL: no such number. */
int script_errno_find(const char *name, size_t len);
const char *script_errno_name(int err);

/* Set a field of a call; the value was an expression's. */
void script_field_set(struct script_call *c, enum script_field f, int64_t v);
int64_t script_field_get(const struct script_call *c, enum script_field f);

#endif
