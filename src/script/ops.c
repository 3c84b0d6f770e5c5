/* The table of calls and the words in it. Numbers are those of x86-64 Linux. No state. */
#include "script/ops.h"

#include <errno.h>
#include <string.h>

static const struct script_word mmap_flags[] = {
	{ "none", 0 }, { "shared", 0x01 }, { "private", 0x02 }, { "shared_validate", 0x03 }, { "fixed", 0x10 }, { "anon", 0x20 },
	{ "bit32", 0x40 }, { "growsdown", 0x100 }, { "denywrite", 0x800 }, { "executable", 0x1000 }, { "locked", 0x2000 },
	{ "noreserve", 0x4000 }, { "populate", 0x8000 }, { "nonblock", 0x10000 }, { "stack", 0x20000 }, { "hugetlb", 0x40000 },
	{ "sync", 0x80000 }, { "fixed_noreplace", 0x100000 }, { "huge_2m", 21U << 26 }, { "huge_1g", 30U << 26 },
	{ "uninitialized", 0x4000000 }, { NULL, 0 },
};

static const struct script_word mremap_flags[] = {
	{ "none", 0 }, { "maymove", 1 }, { "fixed", 2 }, { "dontunmap", 4 }, { NULL, 0 },
};

static const struct script_word advices[] = {
	{ "normal", 0 }, { "random", 1 }, { "sequential", 2 }, { "willneed", 3 }, { "dontneed", 4 }, { "free", 8 }, { "remove", 9 },
	{ "dontfork", 10 }, { "dofork", 11 }, { "mergeable", 12 }, { "unmergeable", 13 }, { "hugepage", 14 }, { "nohugepage", 15 },
	{ "dontdump", 16 }, { "dodump", 17 }, { "wipeonfork", 18 }, { "keeponfork", 19 }, { "cold", 20 }, { "pageout", 21 },
	{ "populate_read", 22 }, { "populate_write", 23 }, { "dontneed_locked", 24 }, { "collapse", 25 }, { "guard_install", 102 },
	{ "guard_remove", 103 }, { NULL, 0 },
};

static const struct script_word msync_flags[] = {
	{ "none", 0 }, { "async", 1 }, { "invalidate", 2 }, { "sync", 4 }, { NULL, 0 },
};

static const struct script_word mlock_flags[] = { { "none", 0 }, { "onfault", 1 }, { NULL, 0 } };

static const struct script_word mlockall_flags[] = {
	{ "none", 0 }, { "current", 1 }, { "future", 2 }, { "onfault", 4 }, { NULL, 0 },
};

static const struct script_word policies[] = {
	{ "default", SCRIPT_MPOL_DEFAULT }, { "preferred", SCRIPT_MPOL_PREFERRED }, { "bind", SCRIPT_MPOL_BIND },
	{ "interleave", SCRIPT_MPOL_INTERLEAVE }, { "local", SCRIPT_MPOL_LOCAL }, { "preferred_many", SCRIPT_MPOL_PREFERRED_MANY },
	{ "weighted_interleave", SCRIPT_MPOL_WEIGHTED_INTERLEAVE }, { NULL, 0 },
};

static const struct script_word move_flags[] = {
	{ "none", 0 }, { "strict", 1 }, { "move", 2 }, { "move_all", 4 }, { NULL, 0 },
};

static const struct script_word accesses[] = { { "read", 0 }, { "write", 1 }, { NULL, 0 } };
static const struct script_word tails[] = { { "all", 0 }, { "kept", 1 }, { "failed", 2 }, { NULL, 0 } };
static const struct script_word file_kinds[] = { { "plain", 0 }, { "shmem", 1 }, { NULL, 0 } };

#define POS(k, f) { .kind = SPARAM_##k, .field = SFIELD_##f }
#define POS_WORDS(k, f, w) { .kind = SPARAM_##k, .field = SFIELD_##f, .words = w }
#define KEY(k, f, name, d) { .kind = SPARAM_##k, .field = SFIELD_##f, .key = name, .optional = true, .def = d }
#define KEY_WORDS(k, f, name, d, w) { .kind = SPARAM_##k, .field = SFIELD_##f, .key = name, .optional = true, .def = d, .words = w }
#define RANGE POS(RANGE, ADDR), POS(RANGE_END, LEN), { .kind = SPARAM_RANGE_STEP, .field = SFIELD_STEP, .optional = true, .def = 4096 }

const struct script_op_info script_op_table[NR_SCRIPT_OPS] = {
	[SOP_MMAP] = { "mmap", NULL, SNOUN_NONE, SGIVES_AREA, "mmap LEN [prot=rw] [flags=private,anon] [at=ADDR] [align=LEN] [file=F] [off=N]",
		{ POS(INT, LEN), KEY(PROT, PROT, "prot", 3), KEY_WORDS(FLAGS, FLAGS, "flags", 0x22, mmap_flags), KEY(ADDR, ADDR, "at", 0),
		  KEY(INT, ALIGN, "align", 0), KEY(FILE, FILE, "file", SCRIPT_NONE), KEY(INT, OFF, "off", 0) } },
	[SOP_MUNMAP] = { "munmap", NULL, SNOUN_NONE, SGIVES_RET, "munmap ADDR LEN", { POS(ADDR, ADDR), POS(INT, LEN) } },
	[SOP_MPROTECT] = { "mprotect", NULL, SNOUN_NONE, SGIVES_RET, "mprotect ADDR LEN PROT",
		{ POS(ADDR, ADDR), POS(INT, LEN), POS(PROT, PROT) } },
	[SOP_MREMAP] = { "mremap", NULL, SNOUN_NONE, SGIVES_AREA, "mremap ADDR LEN NEWLEN [flags=maymove] [to=ADDR]",
		{ POS(ADDR, ADDR), POS(INT, LEN), POS(INT, LEN2), KEY_WORDS(FLAGS, FLAGS, "flags", 1, mremap_flags),
		  KEY(ADDR, ADDR2, "to", 0) } },
	[SOP_MADVISE] = { "madvise", NULL, SNOUN_NONE, SGIVES_RET, "madvise ADDR LEN ADVICE",
		{ POS(ADDR, ADDR), POS(INT, LEN), POS_WORDS(ENUM, ADVICE, advices) } },
	[SOP_MINCORE] = { "mincore", NULL, SNOUN_NONE, SGIVES_COUNT, "mincore ADDR LEN", { POS(ADDR, ADDR), POS(INT, LEN) } },
	[SOP_MSYNC] = { "msync", NULL, SNOUN_NONE, SGIVES_RET, "msync ADDR LEN sync|async|invalidate",
		{ POS(ADDR, ADDR), POS(INT, LEN), POS_WORDS(FLAGS, FLAGS, msync_flags) } },
	[SOP_MLOCK] = { "mlock", NULL, SNOUN_NONE, SGIVES_RET, "mlock ADDR LEN", { POS(ADDR, ADDR), POS(INT, LEN) } },
	[SOP_MLOCK2] = { "mlock2", NULL, SNOUN_NONE, SGIVES_RET, "mlock2 ADDR LEN onfault|none",
		{ POS(ADDR, ADDR), POS(INT, LEN), POS_WORDS(FLAGS, FLAGS, mlock_flags) } },
	[SOP_MUNLOCK] = { "munlock", NULL, SNOUN_NONE, SGIVES_RET, "munlock ADDR LEN", { POS(ADDR, ADDR), POS(INT, LEN) } },
	[SOP_MLOCKALL] = { "mlockall", NULL, SNOUN_NONE, SGIVES_RET, "mlockall current,future,onfault",
		{ POS_WORDS(FLAGS, FLAGS, mlockall_flags) } },
	[SOP_MUNLOCKALL] = { "munlockall", NULL, SNOUN_NONE, SGIVES_RET, "munlockall", { POS(NONE, ADDR) } },
	[SOP_BRK] = { "brk", NULL, SNOUN_NONE, SGIVES_RET, "brk ADDR", { POS(ADDR, ADDR) } },
	[SOP_SBRK] = { "sbrk", NULL, SNOUN_NONE, SGIVES_RET, "sbrk BYTES", { POS(INT, VALUE) } },
	[SOP_MBIND] = { "mbind", NULL, SNOUN_NONE, SGIVES_RET, "mbind ADDR LEN MODE [nodes=N,N] [flags=strict,move,move_all]",
		{ POS(ADDR, ADDR), POS(INT, LEN), POS_WORDS(ENUM, MODE, policies), KEY(NODES, NODES, "nodes", 0),
		  KEY_WORDS(FLAGS, FLAGS, "flags", 0, move_flags) } },
	[SOP_SET_MEMPOLICY] = { "set_mempolicy", NULL, SNOUN_NONE, SGIVES_RET, "set_mempolicy MODE [nodes=N,N]",
		{ POS_WORDS(ENUM, MODE, policies), KEY(NODES, NODES, "nodes", 0) } },
	[SOP_MOVE_PAGES] = { "move_pages", NULL, SNOUN_NONE, SGIVES_COUNT, "move_pages ADDR LEN NODE [flags=move]",
		{ POS(ADDR, ADDR), POS(INT, LEN), POS(INT, NODE), KEY_WORDS(FLAGS, FLAGS, "flags", 2, move_flags) } },
	[SOP_PRCTL_THP] = { "prctl", "thp_disable", SNOUN_NONE, SGIVES_RET, "prctl thp_disable 0|1", { POS(INT, VALUE) } },
	[SOP_TOUCH] = { "touch", NULL, SNOUN_NONE, SGIVES_COUNT, "touch ADDR[..END [step N]] read|write",
		{ RANGE, POS_WORDS(ENUM, WRITE, accesses) } },
	[SOP_READ] = { "read", NULL, SNOUN_NONE, SGIVES_VALUE, "read ADDR", { POS(ADDR, ADDR) } },
	[SOP_WRITE] = { "write", NULL, SNOUN_NONE, SGIVES_RET, "write ADDR VALUE", { POS(ADDR, ADDR), POS(INT, VALUE) } },
	[SOP_FILL] = { "fill", NULL, SNOUN_NONE, SGIVES_COUNT, "fill ADDR..END [step N] VALUE", { RANGE, POS(INT, VALUE) } },
	[SOP_FILE_CREATE] = { "file", "create", SNOUN_NEW_FILE, SGIVES_NOTHING, "file create F LEN [plain|shmem]",
		{ POS(INT, LEN), { .kind = SPARAM_ENUM, .field = SFIELD_FLAGS, .optional = true, .words = file_kinds } } },
	[SOP_FILE_TRUNCATE] = { "file", "truncate", SNOUN_FILE, SGIVES_NOTHING, "file truncate F LEN", { POS(INT, LEN) } },
	[SOP_FILE_READ] = { "file", "read", SNOUN_FILE, SGIVES_NOTHING, "file read F OFF LEN", { POS(INT, OFF), POS(INT, LEN) } },
	[SOP_FILE_WRITE] = { "file", "write", SNOUN_FILE, SGIVES_NOTHING, "file write F OFF LEN VALUE",
		{ POS(INT, OFF), POS(INT, LEN), POS(INT, VALUE) } },
	[SOP_FILE_CLOSE] = { "file", "close", SNOUN_FILE, SGIVES_NOTHING, "file close F", { POS(NONE, ADDR) } },
	[SOP_PREAD] = { "pread", NULL, SNOUN_FILE, SGIVES_NOTHING, "pread F ADDR OFF LEN",
		{ POS(ADDR, ADDR), POS(INT, OFF), POS(INT, LEN) } },
	[SOP_PWRITE] = { "pwrite", NULL, SNOUN_FILE, SGIVES_NOTHING, "pwrite F ADDR OFF LEN",
		{ POS(ADDR, ADDR), POS(INT, OFF), POS(INT, LEN) } },
	[SOP_FORK] = { "fork", NULL, SNOUN_NEW_PROC, SGIVES_NOTHING, "fork P", { POS(NONE, ADDR) } },
	[SOP_EXIT] = { "exit", NULL, SNOUN_NONE, SGIVES_NOTHING, "exit", { POS(NONE, ADDR) } },
	[SOP_WAIT] = { "wait", NULL, SNOUN_PROC, SGIVES_NOTHING, "wait P", { POS(NONE, ADDR) } },
	[SOP_CPU] = { "cpu", NULL, SNOUN_NONE, SGIVES_NOTHING, "cpu N", { POS(INT, VALUE) } },
	[SOP_THREAD] = { "thread", NULL, SNOUN_NEW_THREAD, SGIVES_NOTHING, "thread T [cpu=N]", { KEY(INT, VALUE, "cpu", -1) } },
	[SOP_PIN] = { "pin", NULL, SNOUN_NEW_PIN, SGIVES_NOTHING, "pin P ADDR LEN read|write",
		{ POS(ADDR, ADDR), POS(INT, LEN), POS_WORDS(ENUM, WRITE, accesses) } },
	[SOP_UNPIN] = { "unpin", NULL, SNOUN_PIN, SGIVES_NOTHING, "unpin P", { POS(NONE, ADDR) } },
	[SOP_SET] = { "set", NULL, SNOUN_SETTING, SGIVES_NOTHING, "set SETTING VALUE", { POS(NONE, ADDR) } },
	[SOP_SLEEP] = { "sleep", NULL, SNOUN_NONE, SGIVES_NOTHING, "sleep MILLISECONDS", { POS(INT, VALUE) } },
	[SOP_IDLE] = { "idle", NULL, SNOUN_NONE, SGIVES_NOTHING, "idle", { POS(NONE, ADDR) } },
	[SOP_BOOT] = { "boot", NULL, SNOUN_NONE, SGIVES_NOTHING, "boot BYTES [workers=N] [early=BYTES] [gigantic=N] [tails=all|kept|failed]",
		{ POS(INT, LEN), KEY(INT, VALUE, "workers", 0), KEY(INT, LEN2, "early", 0), KEY(INT, OFF, "gigantic", 0),
		  KEY_WORDS(ENUM, MODE, "tails", 0, tails) } },
	[SOP_CLEAR_AHEAD] = { "clear_ahead", NULL, SNOUN_NONE, SGIVES_COUNT, "clear_ahead 2M|1G [pages=N]",
		{ POS(INT, LEN), KEY(INT, VALUE, "pages", 1 << 30) } },
	[SOP_KHUGEPAGED] = { "khugepaged", NULL, SNOUN_NONE, SGIVES_COUNT, "khugepaged [rounds=N]", { KEY(INT, VALUE, "rounds", 2) } },
	[SOP_SPLIT] = { "split", NULL, SNOUN_NONE, SGIVES_COUNT, "split ADDR LEN", { POS(ADDR, ADDR), POS(INT, LEN) } },
	[SOP_DEFERRED_SPLIT] = { "deferred_split", NULL, SNOUN_NONE, SGIVES_COUNT, "deferred_split [pages=N]",
		{ KEY(INT, VALUE, "pages", 1 << 30) } },
	[SOP_FREE_LISTS] = { "free_lists", NULL, SNOUN_SETTING, SGIVES_NOTHING, "free_lists dma32|normal|movable N,N,...", { POS(NONE, ADDR) } },
	[SOP_RECLAIM] = { "reclaim", NULL, SNOUN_NONE, SGIVES_COUNT, "reclaim PAGES", { POS(INT, VALUE) } },
	[SOP_COMPACT] = { "compact", NULL, SNOUN_NONE, SGIVES_NOTHING, "compact", { POS(NONE, ADDR) } },
};

static const struct {
	const char *name;
	int value;
} errors[] = {
#define E(n) { #n, n }
	E(EPERM), E(ENOENT), E(ESRCH), E(EINTR), E(EIO), E(ENXIO), E(EBADF), E(ECHILD), E(EAGAIN), E(ENOMEM), E(EACCES), E(EFAULT), E(EBUSY),
	E(EEXIST), E(ENODEV), E(EINVAL), E(ENFILE), E(EMFILE), E(ETXTBSY), E(EFBIG), E(ENOSPC), E(EROFS), E(ERANGE), E(EDEADLK), E(ENOSYS),
	E(EOVERFLOW), E(EOPNOTSUPP), E(EHWPOISON),
#undef E
};

bool script_word_find(const struct script_word *w, const char *name, size_t len, uint32_t *ret)
{
	for (; w->name; w++)
		if (strlen(w->name) == len && !memcmp(w->name, name, len)) {
			*ret = w->value;
			return true;
		}
	return false;
}

int script_errno_find(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (strlen(errors[i].name) == len && !memcmp(errors[i].name, name, len))
			return errors[i].value;
	return 0;
}

const char *script_errno_name(int err)
{
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].value == err)
			return errors[i].name;
	return NULL;
}

void script_field_set(struct script_call *c, enum script_field f, int64_t v)
{
	uint64_t u = (uint64_t)v;

	switch (f) {
	case SFIELD_ADDR: c->addr = u; break;
	case SFIELD_LEN: c->len = u; break;
	case SFIELD_ADDR2: c->addr2 = u; break;
	case SFIELD_LEN2: c->len2 = u; break;
	case SFIELD_OFF: c->off = u; break;
	case SFIELD_ALIGN: c->align = u; break;
	case SFIELD_STEP: c->step = u; break;
	case SFIELD_VALUE: c->value = v; break;
	case SFIELD_NODES: c->nodes = u; break;
	case SFIELD_PROT: c->prot = (uint32_t)u; break;
	case SFIELD_FLAGS: c->flags = (uint32_t)u; break;
	case SFIELD_MODE: c->mode = (uint32_t)u; break;
	case SFIELD_ADVICE: c->advice = (int32_t)v; break;
	case SFIELD_NODE: c->node = (int32_t)v; break;
	case SFIELD_WRITE: c->write = v != 0; break;
	case SFIELD_FILE: c->file = (uint32_t)u; break;
	}
}

int64_t script_field_get(const struct script_call *c, enum script_field f)
{
	switch (f) {
	case SFIELD_ADDR: return (int64_t)c->addr;
	case SFIELD_LEN: return (int64_t)c->len;
	case SFIELD_ADDR2: return (int64_t)c->addr2;
	case SFIELD_LEN2: return (int64_t)c->len2;
	case SFIELD_OFF: return (int64_t)c->off;
	case SFIELD_ALIGN: return (int64_t)c->align;
	case SFIELD_STEP: return (int64_t)c->step;
	case SFIELD_VALUE: return c->value;
	case SFIELD_NODES: return (int64_t)c->nodes;
	case SFIELD_PROT: return c->prot;
	case SFIELD_FLAGS: return c->flags;
	case SFIELD_MODE: return c->mode;
	case SFIELD_ADVICE: return c->advice;
	case SFIELD_NODE: return c->node;
	case SFIELD_WRITE: return c->write;
	case SFIELD_FILE: return c->file;
	}
	return 0;
}
