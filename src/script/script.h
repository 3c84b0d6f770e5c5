/*
 * Scripts of memory calls: a small language in which one says what programs do (mmap, touch, fork, ...), and what must then be seen.
 * docs/scripts.md is the language; the same script runs on the kernel underneath and on the engine (exec.h).
 *
 *   lex.c      text into tokens                       ops.c     the calls and their parameters: one table
 *   parse.c    statements   parse_expr.c  expressions print.c   a script, a statement or a call back as text
 *   run.c      running: loops, names, expectations; what reaches an executor is a script_call, all numbers (run.h)
 *   engine*.c  the executor on the engine             observe.c what was seen after a step, and comparing it (observe.h)
 *
 * Parsing needs no executor and no engine. A script is text from anybody: every size, depth and count is bounded by SCRIPT_MAX_*.
 */
#ifndef QUIRE_SCRIPT_SCRIPT_H
#define QUIRE_SCRIPT_SCRIPT_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
	SCRIPT_MAX_BYTES = 1 << 20,   /* of text */
	SCRIPT_MAX_STMTS = 1 << 16,
	SCRIPT_MAX_DEPTH = 16,        /* of blocks, and 64 of expressions */
	SCRIPT_MAX_EXPR_DEPTH = 64,
	SCRIPT_MAX_NAMES = 1024,      /* different names in one script */
	SCRIPT_MAX_NAME = 63,         /* characters */
	SCRIPT_MAX_INDEX = 1 << 20,   /* A[i]: i below this */
	SCRIPT_MAX_BINDS = 1 << 22,   /* names and names with an index that stand for something */
	SCRIPT_MAX_PROCS = 4096,      /* alive at once */
	SCRIPT_MAX_THREADS = 256,     /* in all */
	SCRIPT_MAX_STEPS = 1 << 24,   /* calls that one run may make, when its caller does not say less */
	SCRIPT_MAX_VARIANTS = 64,
	SCRIPT_MAX_ARGS = 8,          /* of a call or a counter */
	SCRIPT_MAX_TEXT = 1000,       /* characters of a string */
	SCRIPT_MAX_ACCESSES = 1 << 26, /* of one touch or fill */
};

/* ---- calls -------------------------------------------------------------------------------------------------- */

/*
 * Contents. Of each page of 4 KiB only the first eight bytes count, its 'value'; the rest is zero or never looked at. READ, WRITE and FILL
 * mean the page that their address lies in. TOUCH leaves values as they are (a write stores the byte that is there). Copies (PREAD, PWRITE,
 * FILE_WRITE) have offsets, addresses and lengths that are multiples of 8, so that a value is copied whole or not at all.
 *
 * What an executor is asked to do. The comment names the fields of struct script_call (below) that are used; `ret` is what it returns on
 * success. Values of prot, flags, advice and modes are Linux's.
 */
enum script_op {
	/*
	 * addr (hint, or exact with FIXED), len, prot, flags, file (SCRIPT_NONE: none), off, align; ret: address. align (a power of two, at
	 * least 4096; 0: none): len + align bytes are reserved as private anonymous memory without rights, the address is rounded up in
	 * there, the reservation unmapped, and the rounded address is the hint of the call itself.
	 */
	SOP_MMAP,
	SOP_MUNMAP,        /* addr, len */
	SOP_MPROTECT,      /* addr, len, prot */
	SOP_MREMAP,        /* addr, len (old), len2 (new), flags, addr2 (with FIXED); ret: address */
	SOP_MADVISE,       /* addr, len, advice */
	SOP_MINCORE,       /* addr, len; ret: 0; result.count: resident pages */
	SOP_MSYNC,         /* addr, len, flags */
	SOP_MLOCK,         /* addr, len */
	SOP_MLOCK2,        /* addr, len, flags */
	SOP_MUNLOCK,       /* addr, len */
	SOP_MLOCKALL,      /* flags */
	SOP_MUNLOCKALL,
	SOP_BRK,           /* addr; ret: the resulting break, as the raw system call returns it */
	SOP_SBRK,          /* value (signed); ret: the break before, -ENOMEM as the C library says */
	SOP_MBIND,         /* addr, len, mode, nodes, flags */
	SOP_SET_MEMPOLICY, /* mode, nodes */
	SOP_MOVE_PAGES,    /* addr, len, node (-1: ask only), flags; ret; result.count: pages that are on `node` afterwards */
	SOP_PRCTL_THP,     /* value: prctl(PR_SET_THP_DISABLE) */
	SOP_TOUCH,         /* addr, len, step, write: one access of one byte at addr, addr+step, ... below addr+len; ends at the first that
			      fails. result.count: accesses that were made */
	SOP_READ,          /* addr; ret 0, result.value: the page's value */
	SOP_WRITE,         /* addr, value: becomes the page's value */
	SOP_FILL,          /* addr, len, step, value: as WRITE, at addr the value, at addr+step value+1, ...; result.count */
	SOP_FILE_CREATE,   /* file: the new one's number, len: size, flags: 1 for shmem (memfd: zeros), 0 for an ordinary file, whose page
			      i has script_file_value(file, i) and is not in the page cache */
	SOP_FILE_TRUNCATE, /* file, len */
	SOP_FILE_READ,     /* file, off, len: read(2) into a buffer outside of what is looked at (brings the page cache in) */
	SOP_FILE_WRITE,    /* file, off, len, value: write(2) from such a buffer, in which every page has the value; ret: bytes */
	SOP_FILE_CLOSE,    /* file: the descriptor; mappings keep the file */
	SOP_PREAD,         /* file, off, addr, len: the kernel copies into the program's memory; ret: bytes */
	SOP_PWRITE,        /* file, off, addr, len: the kernel copies out of it; ret: bytes */
	SOP_FORK,          /* target: number of the new process */
	SOP_EXIT,          /* the process `proc` ends (not the first one) */
	SOP_WAIT,          /* target: wait until that process has ended; -ECHILD: no child of proc, or waited for already */
	SOP_CPU,           /* value: the calling thread runs there from now on */
	SOP_THREAD,        /* target: number of a new thread of the calling process; value: its CPU, or -1: as the caller's */
	SOP_PIN,           /* target: the pin's number, addr, len, write: a long-term pin (executors without: unsupported) */
	SOP_UNPIN,         /* target */
	SOP_SET,           /* name, text: a setting. Before the first other call of a run only where the executor says so */
	SOP_SLEEP,         /* value: milliseconds */
	SOP_IDLE,          /* the calling thread sleeps until its next call: its CPU runs nothing, its address space is left loaded */
	SOP_BOOT,          /* len: bytes of memory whose descriptors are initialised, value: workers, len2: bytes wanted before they begin,
			      off: gigantic pages, mode: their tails (enum boot_tails). Nobody else runs meanwhile */
	SOP_CLEAR_AHEAD,   /* len: page size of a pool (2 MiB or 1 GiB), value: pages at most; result.count: that were cleared */
	SOP_KHUGEPAGED,    /* value: rounds; result.count: huge pages that khugepaged has made */
	SOP_SPLIT,         /* addr, len; result.count: huge pages of the range that were split */
	SOP_DEFERRED_SPLIT,/* value: huge pages at most; result.count: that the shrinker has split */
	SOP_FREE_LISTS,    /* name: a zone, text: blocks of order 0, 1, ... that node 0's has free from now on, and nothing else */
	SOP_RECLAIM,       /* value: pages; result.count: that were freed */
	SOP_COMPACT,
	NR_SCRIPT_OPS
};

#define SCRIPT_NONE UINT32_MAX

/* SOP_MSYNC, SOP_MBIND, ...: values are Linux's. Modes of a memory policy, for executors that must not include <numaif.h>. */
enum { SCRIPT_MPOL_DEFAULT, SCRIPT_MPOL_PREFERRED, SCRIPT_MPOL_BIND, SCRIPT_MPOL_INTERLEAVE, SCRIPT_MPOL_LOCAL, SCRIPT_MPOL_PREFERRED_MANY,
       SCRIPT_MPOL_WEIGHTED_INTERLEAVE };

/* What page `index` of ordinary file number `file` holds when it is made; never 0. */
uint64_t script_file_value(uint32_t file, uint64_t index);

/* One call, all names resolved: what executors get. Fields that an op does not name are 0 (SCRIPT_NONE for file and target). */
struct script_call {
	enum script_op op;
	uint32_t proc;    /* who: 0 is the first process; others as SOP_FORK's target said. Numbers are never used again */
	uint32_t thread;  /* 0: the process's main thread; others as SOP_THREAD's target said, 1, 2, ... over the whole run */
	uint32_t target;
	uint32_t file;    /* number of a file, as SOP_FILE_CREATE said */
	uint64_t addr, len, addr2, len2, off, align, step;
	int64_t value;
	uint64_t nodes;   /* bit n: node n */
	uint32_t prot, flags, mode;
	int32_t advice, node;
	bool write;
	const char *name, *text; /* SOP_SET, SOP_FREE_LISTS; owned by the script */
	uint32_t line;    /* of the statement; 0 unknown */
};

/* ---- the tree ------------------------------------------------------------------------------------------------ */

enum script_expr_kind {
	SEXPR_INT,     /* i */
	SEXPR_NAME,    /* name, and a[0] the index or NULL: A, A[i] */
	SEXPR_COUNTER, /* text (whole dotted name), a[0..nr): vmstat.pgfault, mincore(A, 4096), rss, result, errno */
	SEXPR_BINARY,  /* op ('+', '-', '*', '/', '%', '<', '>', 'l' <=, 'g' >=, '=' ==, '!' !=, '&' and, '|' or), a[0], a[1] */
	SEXPR_UNARY,   /* op ('-' or '!'), a[0] */
};

struct script_expr {
	enum script_expr_kind kind;
	char op;
	uint8_t nr;               /* entries of a */
	uint32_t name;            /* index in script.names */
	uint32_t line, col;
	int64_t i;
	char *text;
	struct script_expr *a[SCRIPT_MAX_ARGS];
	uint8_t unit;             /* SEXPR_INT: 'K', 'M', 'G', 'T', 'p', 'x' (hexadecimal) or 0: how it was written, for printing */
};

enum script_stmt_kind {
	SSTMT_CALL,    /* a call; see struct script_stmt */
	SSTMT_LET,     /* dest = expr[0] */
	SSTMT_FOR,     /* for `name` in expr[0]..expr[1] (both included) body */
	SSTMT_IF,      /* if expr[0] body else other */
	SSTMT_PROC,    /* proc who: body */
	SSTMT_THREAD,  /* thread who: body */
	SSTMT_MARK,    /* counters count from here */
	SSTMT_EXPECT,  /* expr[0] must not be 0; a comparison is printed with both sides when it is */
	SSTMT_APPROX,  /* expect approx expr[0] expr[1] expr[2]%: |0 - 1| * 100 <= 2 * |1| */
	SSTMT_REPORT,  /* report `text` expr[0] `unit` [`published`] */
};

struct script_block {
	struct script_stmt **s;
	size_t nr, cap;
};

struct script_stmt {
	enum script_stmt_kind kind;
	uint32_t line, col;
	/* SSTMT_CALL: the op, and its parameters in the order of its table entry (ops.h); absent optional ones are NULL */
	enum script_op op;
	struct script_expr *arg[SCRIPT_MAX_ARGS];
	int expect_err;           /* `-> NAME`: errno; 0: must succeed */
	int expect_sig;           /* `-> SIGSEGV` or `-> SIGBUS`: the signal's number; 0: none */
	bool any_err;             /* `-> any`: may fail with anything */
	/* A = ..., fork A, proc A:, thread A:, file create A, pin A: a name, with an index or without */
	struct script_expr *dest;
	uint32_t name;            /* SSTMT_FOR */
	struct script_expr *expr[3];
	char *text, *unit;        /* SOP_SET: name and value; SSTMT_REPORT: name and unit */
	char *published;          /* SSTMT_REPORT: what somebody else found; may be NULL */
	char *variant;            /* expect[NAME]: only in that variant; NULL: in all */
	bool braces;              /* proc, thread: written as a block, not as one statement */
	struct script_block body, other;
};

struct script_setting {
	char *name, *value;
	uint32_t line, col;
};

struct script_variant {
	char *name;
	struct script_setting *set;
	size_t nr_set;
	uint32_t line;
};

struct script {
	char *file;                          /* for messages */
	char *title, *source, *pending, *machine, *note; /* NULL: not given */
	struct script_variant *variant;
	size_t nr_variants;
	char **names;                        /* all names that are bound or used, once each */
	uint32_t nr_names;
	struct script_block body;
	size_t nr_stmts;
};

/*
 * Parse a text of len bytes (need not end in NUL; NUL bytes in it are an error). 0 and *ret, or -EINVAL or -ENOMEM with one line
 * "FILE:LINE:COL: what is wrong; what is allowed" in err, and *ret NULL.
 */
ATTR_MUST_CHECK int script_parse(const char *file, const char *text, size_t len, struct script **ret, char *err, size_t errlen);
/* The same from a file. Also -errno of opening and reading it, and -EFBIG. */
ATTR_MUST_CHECK int script_load(const char *path, struct script **ret, char *err, size_t errlen);
void script_free(struct script *s);

/* ---- as text ---- */
/* Text that parses to the same script; comments and blank lines are lost. */
void script_print(const struct script *s, FILE *to);
/* One statement, with what it contains, `depth` tabs in. */
void script_print_stmt(const struct script *s, const struct script_stmt *st, unsigned depth, FILE *to);
/* Names addresses: writes NAME+offset, or a number when no name fits, into buf. */
typedef void (*script_label_fn)(void *arg, uint64_t addr, char *buf, size_t len);
/* A call with its numbers, in the language's words, one line without its end. label NULL: addresses in hexadecimal. */
void script_format_call(const struct script_call *c, script_label_fn label, void *arg, char *buf, size_t len);

/* ---- changing a tree: for shrinking ---- */
/* Take statement i out of a block and free it. */
void script_block_remove(struct script_block *b, size_t i);
/* A copy by way of its text: lines are those of the printed text. NULL: out of memory. */
ATTR_MUST_CHECK struct script *script_copy(const struct script *s);

#endif
