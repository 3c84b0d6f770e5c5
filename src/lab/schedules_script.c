/*
 * The programs whose interleavings are checked: a line a statement.
 *
 *   set NAME=VALUE            a setting (as --set)
 *   area NAME PAGES           a place for memory, 1 GiB from the next, on a 2 MiB boundary
 *   setup | task NAME [cpu N] | child NAME [cpu N]      begins a section; a child begins with `fork NAME` elsewhere
 *   map A | unmap A PAGES | read A PAGES | write A PAGES | protect A PAGES none,r,rw | dontneed A PAGES | populate A PAGES
 *   move A PAGES B | huge A | nohuge A | collapse A | lock A PAGES | unlock A PAGES | pin A PAGE | pinread A PAGE
 *   poke | unpin
 *   split A PAGE | migrate A PAGES | shrink      the folio at a page; pages to other frames; all huge pages with unmapped parts
 *   defer A PAGE | pending      a flush is put off, as for an entry that was cleared (made at the task's end); who changes entries looks for such
 *   fork NAME | visit SPACE A PAGE | kernel | yield | drop SPACE | exit
 *
 * PAGES: N or N-M, numbers of pages in the area. Tasks run on CPUs of their own unless told otherwise.
 */
#include "lab/schedules.h"

#include "mm/uapi.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARG_NONE, ARG_AREA = 1, ARG_PAGES = 2, ARG_PROT = 4, ARG_TO = 8, ARG_SPACE = 16, ARG_NEW_SPACE = 32 };

static const struct {
	const char *word;
	unsigned args;
} statements[NR_SOPS] = {
	[SOP_MAP] = { "map", ARG_AREA }, [SOP_UNMAP] = { "unmap", ARG_AREA | ARG_PAGES }, [SOP_READ] = { "read", ARG_AREA | ARG_PAGES },
	[SOP_WRITE] = { "write", ARG_AREA | ARG_PAGES }, [SOP_PROTECT] = { "protect", ARG_AREA | ARG_PAGES | ARG_PROT },
	[SOP_DONTNEED] = { "dontneed", ARG_AREA | ARG_PAGES }, [SOP_POPULATE] = { "populate", ARG_AREA | ARG_PAGES },
	[SOP_MOVE] = { "move", ARG_AREA | ARG_PAGES | ARG_TO }, [SOP_HUGE] = { "huge", ARG_AREA }, [SOP_NOHUGE] = { "nohuge", ARG_AREA }, [SOP_COLLAPSE] = { "collapse", ARG_AREA },
	[SOP_LOCK] = { "lock", ARG_AREA | ARG_PAGES }, [SOP_UNLOCK] = { "unlock", ARG_AREA | ARG_PAGES },
	[SOP_PIN] = { "pin", ARG_AREA | ARG_PAGES }, [SOP_PINREAD] = { "pinread", ARG_AREA | ARG_PAGES }, [SOP_POKE] = { "poke", ARG_NONE }, [SOP_UNPIN] = { "unpin", ARG_NONE },
	[SOP_FORK] = { "fork", ARG_NEW_SPACE }, [SOP_VISIT] = { "visit", ARG_SPACE | ARG_AREA | ARG_PAGES }, [SOP_KERNEL] = { "kernel", ARG_NONE },
	[SOP_YIELD] = { "yield", ARG_NONE }, [SOP_DROP] = { "drop", ARG_SPACE }, [SOP_EXIT] = { "exit", ARG_NONE },
	[SOP_SPLIT] = { "split", ARG_AREA | ARG_PAGES }, [SOP_MIGRATE] = { "migrate", ARG_AREA | ARG_PAGES }, [SOP_SHRINK] = { "shrink", ARG_NONE }, [SOP_DEFER] = { "defer", ARG_AREA | ARG_PAGES }, [SOP_PENDING] = { "pending", ARG_NONE },
};

struct parser {
	struct schedules_program *p;
	const char *name;
	unsigned line;
	char *err;
	size_t errlen;
	bool in_section;
};

ATTR_PRINTF(2, 3) static int wrong(struct parser *ps, const char *fmt, ...)
{
	va_list ap;
	int n = snprintf(ps->err, ps->errlen, "%s:%u: ", ps->name, ps->line);

	va_start(ap, fmt);
	if (n > 0 && (size_t)n < ps->errlen)
		vsnprintf(ps->err + n, ps->errlen - (size_t)n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static int find_name(const char (*names)[16], uint32_t nr, const char *word)
{
	for (uint32_t i = 0; word && i < nr; i++)
		if (!strcmp(names[i], word))
			return (int)i;
	return -1;
}

static bool good_name(const char *s)
{
	size_t n = s ? strlen(s) : 0;

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_' && s[i] != '-')
			return false;
	return n && n < 16;
}

static bool number(const char *s, unsigned long max, const char **ret_end, unsigned long *ret)
{
	char *end;

	if (!s || !isdigit((unsigned char)*s))
		return false;
	*ret = strtoul(s, &end, 10);
	*ret_end = end;
	return *ret <= max;
}

static int parse_pages(struct parser *ps, const char *s, struct schedules_op *op)
{
	unsigned long first, last, max = ps->p->pages[op->area];
	const char *end;

	if (!number(s, max - 1, &end, &first))
		return wrong(ps, "%s: pages are N or N-M, below %lu", s ? s : "(nothing)", max);
	last = first;
	if (*end == '-' && !number(end + 1, max - 1, &end, &last))
		return wrong(ps, "%s: pages are N or N-M, below %lu", s, max);
	if (*end || last < first)
		return wrong(ps, "%s: pages are N or N-M, below %lu", s, max);
	op->first = (uint32_t)first;
	op->nr = (uint32_t)(last - first + 1);
	return 0;
}

static int parse_area(struct parser *ps, const char *s, uint8_t *ret)
{
	int a = find_name((const char(*)[16])ps->p->area, ps->p->nr_areas, s);

	if (a < 0)
		return wrong(ps, "%s: no such area", s ? s : "(nothing)");
	*ret = (uint8_t)a;
	return 0;
}

static int parse_space(struct parser *ps, const char *s, bool make, uint8_t *ret)
{
	struct schedules_program *p = ps->p;
	int a = find_name((const char(*)[16])p->space, p->nr_spaces, s);

	if (a < 0 && make) {
		if (!good_name(s))
			return wrong(ps, "%s: a name is 1 to 15 letters, digits, - and _", s ? s : "(nothing)");
		if (p->nr_spaces == SCHEDULES_MAX_SPACES)
			return wrong(ps, "at most %d address spaces", SCHEDULES_MAX_SPACES);
		a = (int)p->nr_spaces++;
		memcpy(p->space[a], s, strlen(s) + 1);
	}
	if (a < 0)
		return wrong(ps, "%s: no such address space; the first is called main", s ? s : "(nothing)");
	*ret = (uint8_t)a;
	return 0;
}

static int parse_prot(struct parser *ps, const char *s, uint8_t *ret)
{
	static const struct {
		const char *word;
		uint8_t prot;
	} all[] = { { "none", 0 }, { "r", UAPI_PROT_READ }, { "rw", UAPI_PROT_READ | UAPI_PROT_WRITE } };

	for (size_t i = 0; s && i < ARRAY_SIZE(all); i++)
		if (!strcmp(all[i].word, s)) {
			*ret = all[i].prot;
			return 0;
		}
	return wrong(ps, "%s: none, r or rw", s ? s : "(nothing)");
}

static int parse_statement(struct parser *ps, char **w, const char *text)
{
	struct schedules_program *p = ps->p;
	struct schedules_op *op = &p->op[p->nr_ops];
	unsigned k = 0, args, i = 1;
	int r = 0;

	while (k < NR_SOPS && strcmp(statements[k].word, w[0]))
		k++;
	if (k == NR_SOPS)
		return wrong(ps, "%s: no such statement", w[0]);
	if (!ps->in_section)
		return wrong(ps, "%s: must come after setup, task or child", w[0]);
	if (p->nr_ops == SCHEDULES_MAX_OPS)
		return wrong(ps, "at most %d statements", SCHEDULES_MAX_OPS);
	if (!p->nr_tasks && (k == SOP_YIELD || k == SOP_EXIT))
		return wrong(ps, "%s: not in the setup", w[0]);
	args = statements[k].args;
	*op = (struct schedules_op){ .kind = (enum schedules_kind)k };
	snprintf(op->text, sizeof(op->text), "%.*s", (int)sizeof(op->text) - 1, text);
	if (args & (ARG_SPACE | ARG_NEW_SPACE))
		r = parse_space(ps, w[i++], args & ARG_NEW_SPACE, &op->space);
	if (!r && args & ARG_AREA)
		r = parse_area(ps, w[i++], &op->area);
	if (!r && args & ARG_PAGES)
		r = parse_pages(ps, w[i++], op);
	else if (!r && args & ARG_AREA)
		op->nr = p->pages[op->area];
	if (!r && args & ARG_PROT)
		r = parse_prot(ps, w[i++], &op->prot);
	if (!r && args & ARG_TO)
		r = parse_area(ps, w[i++], &op->to);
	if (!r && args & ARG_TO && (op->to == op->area || op->first + op->nr > p->pages[op->to]))
		r = wrong(ps, "the pages must fit into another area");
	if (!r && (k == SOP_PIN || k == SOP_PINREAD || k == SOP_VISIT) && op->nr != 1)
		r = wrong(ps, "%s: one page", w[0]);
	if (!r && w[i])
		r = wrong(ps, "%s: one word too many", w[i]);
	if (r)
		return r;
	p->nr_ops++;
	if (p->nr_tasks)
		p->task[p->nr_tasks - 1].nr++;
	else
		p->nr_setup++;
	return 0;
}

static int parse_task(struct parser *ps, char **w)
{
	struct schedules_program *p = ps->p;
	struct schedules_task *t = &p->task[p->nr_tasks];
	unsigned long cpu = p->nr_cpus;
	const char *end = "";

	if (!good_name(w[1]))
		return wrong(ps, "%s: a name is 1 to 15 letters, digits, - and _", w[1] ? w[1] : "(nothing)");
	if (p->nr_tasks == SCHEDULES_MAX_TASKS)
		return wrong(ps, "at most %d tasks", SCHEDULES_MAX_TASKS);
	if (w[2] && (strcmp(w[2], "cpu") || !number(w[3], SCHEDULES_MAX_TASKS - 1, &end, &cpu) || *end || w[4]))
		return wrong(ps, "%s NAME [cpu 0 to %d]", w[0], SCHEDULES_MAX_TASKS - 1);
	*t = (struct schedules_task){ .cpu = (uint8_t)cpu, .first = (uint16_t)p->nr_ops, .child = !strcmp(w[0], "child") };
	memcpy(t->name, w[1], strlen(w[1]) + 1);
	if (t->child && parse_space(ps, w[1], true, &t->space))
		return -EINVAL;
	p->nr_tasks++;
	p->nr_cpus = MAX(p->nr_cpus, (uint32_t)cpu + 1);
	ps->in_section = true;
	return 0;
}

static int parse_line(struct parser *ps, char *line)
{
	struct schedules_program *p = ps->p;
	char *w[8] = { 0 }, *save = NULL, text[160], *hash = strchr(line, '#');
	unsigned n = 0;
	unsigned long pages;
	const char *end;

	if (hash)
		*hash = 0;
	while (isspace((unsigned char)*line))
		line++;
	snprintf(text, sizeof(text), "%s", line);
	for (size_t len = strlen(text); len && isspace((unsigned char)text[len - 1]);)
		text[--len] = 0;
	for (char *t = strtok_r(line, " \t\r", &save); t && n < 7; t = strtok_r(NULL, " \t\r", &save))
		w[n++] = t;
	if (!n)
		return 0;
	if (!strcmp(w[0], "set")) {
		if (n != 2 || p->nr_set == ARRAY_SIZE(p->set) || strlen(w[1]) >= sizeof(p->set[0]))
			return wrong(ps, "set NAME=VALUE, at most %zu times", ARRAY_SIZE(p->set));
		memcpy(p->set[p->nr_set++], w[1], strlen(w[1]) + 1);
		return 0;
	}
	if (!strcmp(w[0], "area")) {
		if (n != 3 || !good_name(w[1]) || !number(w[2], SCHEDULES_MAX_PAGES, &end, &pages) || *end || !pages ||
		    p->nr_areas == SCHEDULES_MAX_AREAS || find_name((const char(*)[16])p->area, p->nr_areas, w[1]) >= 0)
			return wrong(ps, "area NAME PAGES, 1 to %d, at most %d areas", SCHEDULES_MAX_PAGES, SCHEDULES_MAX_AREAS);
		memcpy(p->area[p->nr_areas], w[1], strlen(w[1]) + 1);
		p->pages[p->nr_areas++] = (uint32_t)pages;
		return 0;
	}
	if (!strcmp(w[0], "setup")) {
		if (ps->in_section || n != 1)
			return wrong(ps, "setup comes once, before the tasks");
		ps->in_section = true;
		return 0;
	}
	if (!strcmp(w[0], "task") || !strcmp(w[0], "child"))
		return parse_task(ps, w);
	return parse_statement(ps, w, text);
}

int schedules_parse(const char *name, const char *text, struct schedules_program *ret, char *err, size_t errlen)
{
	struct parser ps = { .p = ret, .name = name, .err = err, .errlen = errlen };
	bool begins = false;
	char line[160];

	memset(ret, 0, sizeof(*ret));
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	strcpy(ret->space[0], "main");
	ret->nr_spaces = 1;
	while (*text) {
		size_t n = strcspn(text, "\n");

		ps.line++;
		if (n >= sizeof(line))
			return wrong(&ps, "a line has at most %zu characters", sizeof(line) - 1);
		memcpy(line, text, n);
		line[n] = 0;
		if (memchr(line, 0, n) || parse_line(&ps, line))
			return -EINVAL;
		text += n + (text[n] == '\n');
	}
	for (uint32_t i = 0; i < ret->nr_tasks; i++)
		begins |= !ret->task[i].child;
	if (!begins)
		return wrong(&ps, "there is no task");
	return 0;
}

/* ---- built in ---- */

#define NEVER "set transparent_hugepage.enabled=never\n"
#define ALWAYS "set transparent_hugepage.enabled=always\nset transparent_hugepage.defrag=always\n"

const struct schedules_builtin schedules_builtins[] = {
	{ "unmap", "accesses against munmap, and memory that comes back",
	  NEVER "area a 4\n setup\n map a\n write a 0-3\n"
	  "task writer\n write a 0-2\n read a 0-3\n write a 1\n"
	  "task reader\n read a 1-2\n write a 3\n read a 1\n read a 3\n"
	  "task unmapper\n unmap a 1-2\n map a\n write a 1\n unmap a 1\n" },
	{ "cow", "fork, then parent, its thread and child write: who may keep a page",
	  NEVER "area a 3\n setup\n map a\n write a 0-1\n"
	  "task parent\n fork kid\n write a 0\n read a 0-1\n write a 2\n"
	  "task thread\n write a 0-1\n read a 0-2\n write a 1\n read a 1\n"
	  "child kid\n read a 0\n write a 0\n write a 1\n read a 0-2\n exit\n" },
	{ "reuse", "the last sharer takes a page back while the others let go of it",
	  NEVER "area a 2\n setup\n map a\n write a 0-1\n fork k1\n fork k2\n"
	  "task parent\n write a 0\n read a 0\n write a 1\n read a 0-1\n"
	  "task thread\n read a 0\n write a 0\n read a 0\n drop k1\n"
	  "task other\n visit k2 a 0\n drop k2\n read a 1\n" },
	{ "forks", "two threads fork at once while a third writes",
	  NEVER "area a 2\n setup\n map a\n write a 0\n"
	  "task one\n fork k1\n write a 0\n read a 0-1\n"
	  "task two\n write a 1\n fork k2\n read a 0\n write a 0\n"
	  "task three\n write a 0-1\n read a 0-1\n"
	  "child k1\n read a 0-1\n write a 0-1\n read a 0-1\n exit\n" },
	{ "protect", "mprotect against stores",
	  NEVER "area a 4\n setup\n map a\n write a 0-3\n"
	  "task writer\n write a 0-3\n read a 0-3\n write a 1\n"
	  "task protector\n write a 0\n write a 2\n protect a 0-1 r\n read a 0\n protect a 0-3 rw\n protect a 2 none\n"
	  "task other\n write a 0-2\n read a 0-3\n write a 1\n" },
	{ "protect-cow", "mprotect of pages that fork has shared, against stores on both sides",
	  NEVER "area a 2\n setup\n map a\n write a 0-1\n"
	  "task protector\n fork k\n protect a 0-1 r\n protect a 0-1 rw\n read a 0\n"
	  "task writer\n write a 0\n read a 0-1\n write a 1\n"
	  "child k\n read a 0\n protect a 0 r\n protect a 0 rw\n write a 0\n read a 0-1\n exit\n" },
	{ "tables", "page tables that come and go beside others",
	  NEVER "area a 2\n area b 2\n setup\n map a\n"
	  "task one\n map b\n write b 0\n unmap b 0-1\n write a 0\n"
	  "task two\n write a 1\n read a 0-1\n read b 0\n kernel\n read a 1\n"
	  "task three\n read b 1\n write a 0\n kernel\n unmap a 0-1\n map a\n write a 1\n" },
	{ "move", "mremap against accesses at both ends",
	  NEVER "area a 4\n area b 4\n setup\n map a\n write a 0-3\n"
	  "task mover\n move a 0-1 b\n read b 0-1\n write b 0\n"
	  "task writer\n write a 0-3\n read b 0-1\n read a 2\n write b 1\n"
	  "task reader\n read a 0-2\n read b 0\n write b 0\n read b 0-1\n" },
	{ "zap", "DONTNEED against faults",
	  NEVER "area a 3\n setup\n map a\n write a 0-2\n"
	  "task zapper\n dontneed a 0-2\n read a 0\n dontneed a 1\n"
	  "task writer\n write a 0-1\n read a 0-1\n read a 2\n"
	  "task other\n read a 1-2\n write a 2\n read a 2\n" },
	{ "zero", "reads of the zero page against the first write",
	  NEVER "area a 2\n setup\n map a\n"
	  "task one\n read a 0-1\n write a 0\n read a 0\n"
	  "task two\n read a 0\n write a 0-1\n read a 1\n"
	  "task three\n fork k\n read a 0\n write a 0\n read a 0\n"
	  "child k\n read a 0-1\n write a 0\n exit\n" },
	{ "populate", "populating against munmap and faults",
	  NEVER "area a 6\n setup\n map a\n"
	  "task populator\n populate a 0-5\n read a 0-5\n"
	  "task unmapper\n unmap a 2-3\n map a\n write a 2\n"
	  "task writer\n write a 1-2\n read a 1-2\n dontneed a 5\n" },
	{ "locked", "mlock and munlock against unmapping and faults",
	  NEVER "area a 4\n setup\n map a\n write a 0\n"
	  "task locker\n lock a 0-3\n unlock a 0-1\n"
	  "task zapper\n dontneed a 1\n unmap a 3\n write a 2\n"
	  "task writer\n write a 0-2\n read a 0-2\n fork k\n drop k\n" },
	{ "pin", "long-term pins against fork: the pinned page stays the parent's",
	  NEVER "area a 2\n setup\n map a\n write a 0-1\n"
	  "task pinner\n pin a 0\n poke\n read a 0\n write a 0\n poke\n read a 0\n unpin\n"
	  "task forker\n fork k\n write a 0\n read a 0-1\n"
	  "child k\n read a 0\n write a 0\n read a 0\n exit\n" },
	{ "pin-read", "pins for reading: what is shared is copied before, or the program's next write goes elsewhere",
	  NEVER "area a 1\n setup\n map a\n write a 0\n fork k\n"
	  "task pinner\n pinread a 0\n write a 0\n poke\n read a 0\n unpin\n"
	  "task other\n read a 0\n visit k a 0\n drop k\n write a 0\n" },
	{ "pin-zap", "pins against pages that are being taken away",
	  NEVER "area a 2\n setup\n map a\n write a 0-1\n"
	  "task pinner\n pin a 0\n unpin\n pin a 1\n unpin\n pin a 0\n"
	  "task zapper\n dontneed a 0-1\n dontneed a 0\n unmap a 0-1\n"
	  "task writer\n write a 0-1\n write a 0\n" },
	{ "exit", "the end of an address space against lazy TLBs",
	  NEVER "area a 4\n setup\n map a\n write a 0-3\n fork k\n fork l\n"
	  "task visitor\n visit k a 0\n kernel\n visit l a 1\n kernel\n write a 0\n"
	  "task ender\n visit k a 1\n drop k\n write a 1\n"
	  "task other\n visit l a 2\n kernel\n drop l\n unmap a 2-3\n read a 0\n" },
	{ "last-user", "an address space ends on another CPU than those that have it lazily loaded",
	  NEVER "area a 2\n setup\n map a\n write a 0-1\n"
	  "task starter\n fork k\n visit k a 0\n visit k a 1\n write a 0\n visit k a 0\n"
	  "task visitor\n read a 0\n visit k a 0\n visit k a 1\n visit k a 0\n"
	  "child k\n read a 0\n unmap a 0-1\n exit\n" },
	{ "lazy", "CPUs that run kernel work while the address space changes, and come back",
	  NEVER "area a 4\n setup\n map a\n write a 0-3\n"
	  "task sleeper\n read a 0-3\n kernel\n write a 0-3\n kernel\n read a 0-3\n"
	  "task changer\n dontneed a 0-1\n write a 0\n protect a 2 r\n protect a 2 rw\n"
	  "task other\n write a 2\n kernel\n read a 2\n unmap a 3\n map a\n" },
	{ "contexts", "more address spaces than a CPU remembers: context slots are used again",
	  NEVER "area a 2\n setup\n map a\n write a 0-1\n fork s1\n fork s2\n fork s3\n fork s4\n fork s5\n fork s6\n fork s7\n"
	  "task tour\n read a 0\n visit s1 a 0\n visit s2 a 0\n visit s3 a 0\n visit s4 a 0\n visit s5 a 0\n visit s6 a 0\n visit s7 a 0\n read a 0\n read a 1\n visit s1 a 0\n"
	  "task changer\n write a 0\n dontneed a 1\n visit s1 a 1\n drop s2\n drop s3\n write a 1\n"
	  "task other\n visit s1 a 0\n read a 0\n drop s5\n read a 0-1\n" },
	{ "switch", "tasks of two address spaces that share a CPU",
	  NEVER "area a 3\n setup\n map a\n write a 0-2\n"
	  "task one cpu 0\n fork k\n read a 0\n yield\n write a 0\n yield\n read a 0-2\n"
	  "task two cpu 1\n write a 0-1\n dontneed a 2\n protect a 1 r\n read a 0-1\n"
	  "child k cpu 0\n read a 0-1\n yield\n write a 0\n read a 0\n yield\n unmap a 1\n exit\n" },
	{ "migrate", "pages move to other frames, against stores, unmapping and fork",
	  NEVER "area a 3\n setup\n map a\n write a 0-2\n"
	  "task mover\n migrate a 0-2\n read a 0-2\n migrate a 1\n"
	  "task writer\n write a 0-2\n read a 0-2\n write a 1\n read a 1\n"
	  "task changer\n dontneed a 2\n write a 2\n protect a 0 r\n read a 0\n fork k\n write a 1\n drop k\n" },
	{ "migrate-cow", "pages that two processes share move, while both write",
	  NEVER "area a 2\n setup\n map a\n write a 0-1\n"
	  "task mover\n fork k\n migrate a 0-1\n write a 0\n read a 0-1\n"
	  "task writer\n write a 1\n read a 0-1\n pin a 0\n poke\n read a 0\n unpin\n"
	  "child k\n read a 0-1\n migrate a 0\n write a 0\n read a 0\n exit\n" },
	{ "batch-mark", "a flush that was put off, found by others who change entries of the same address space",
	  NEVER "area a 3\n area b 1\n setup\n map a\n map b\n write a 0-2\n write b 0\n"
	  "task mover\n migrate a 0-1\n"
	  "task protector\n protect b 0 r\n protect a 1 r\n"
	  "task writer\n write a 1\n write a 1\n write a 1\n" },
	{ "lost-mark", "the mark of a flush that was put off, against somebody who flushes because of an earlier one",
	  NEVER "area a 3\n setup\n map a\n write a 0\n"
	  "task one\n defer a 0\n read a 0\n defer a 1\n read a 0\n"
	  "task two\n pending\n pending\n"
	  "task three\n read a 0\n" },
	{ "split", "a huge page that PTEs map is split into base pages, against accesses, mprotect and pins",
	  ALWAYS "area a 512\n setup\n map a\n write a 0-2\n dontneed a 4-511\n"
	  "task splitter\n split a 0\n read a 0-1\n write a 0\n"
	  "task writer\n write a 0-2\n read a 0-2\n write a 0-2\n read a 0-2\n write a 0-2\n write a 0-2\n write a 0-2\n write a 0-2\n"
	  "task changer\n protect a 1 r\n pin a 2\n unpin\n dontneed a 3\n protect a 0-1 rw\n read a 2\n" },
	{ "split-fork", "the same, mapped by two processes, one by its PMD",
	  ALWAYS "area a 512\n setup\n map a\n write a 0\n write a 7\n"
	  "task splitter\n fork k\n split a 7\n write a 0\n read a 7\n"
	  "task writer\n read a 0\n write a 7\n read a 7\n"
	  "child k\n read a 7\n protect a 3 r\n write a 0\n read a 0\n read a 7\n exit\n" },
	{ "shrink", "huge pages with unmapped parts are split when memory is short, while they are being unmapped",
	  ALWAYS "area a 512\n setup\n map a\n write a 0\n write a 1\n dontneed a 10-400\n"
	  "task shrinker\n shrink\n read a 0\n shrink\n"
	  "task writer\n write a 0-1\n read a 0-1\n write a 12\n read a 12\n"
	  "task unmapper\n dontneed a 1-9\n read a 1\n unmap a 400-511\n" },
	/* b leaves a huge page on the list of the collapser's CPU: there is no need to make room for one. */
	{ "collapse", "base pages become a huge page, against accesses, DONTNEED, mprotect, munmap and pins",
	  "set transparent_hugepage.enabled=madvise\narea a 512\narea b 512\n setup\n map b\n huge b\n write b 0\n map a\n unmap b 0-511\n write a 0-2\n"
	  "task collapser\n collapse a\n read a 0-1\n write a 0\n"
	  "task writer\n write a 0-2\n read a 0-2\n write a 0-2\n write a 0-2\n read a 0-2\n write a 0-2\n"
	  "task changer\n dontneed a 1\n protect a 2 r\n pin a 0\n unpin\n protect a 2 rw\n read a 2\n unmap a 2-511\n" },
	{ "collapse-fork", "the same against a fork and the child's copies",
	  "set transparent_hugepage.enabled=madvise\narea a 512\narea b 512\n setup\n map b\n huge b\n write b 0\n map a\n unmap b 0-511\n write a 0\n write a 7\n"
	  "task collapser\n fork k\n collapse a\n write a 0\n read a 7\n"
	  "task writer\n write a 0\n write a 7\n read a 0\n write a 7\n"
	  "child k\n read a 7\n write a 0\n read a 0\n dontneed a 0\n read a 7\n exit\n" },
	{ "huge-fault", "first faults of one huge page by several CPUs",
	  ALWAYS "area a 512\n setup\n map a\n"
	  "task one\n write a 0\n read a 1\n read a 511\n"
	  "task two\n read a 1\n write a 1\n read a 0\n"
	  "task three\n write a 511\n dontneed a 0-511\n read a 511\n write a 2\n" },
	{ "huge-zero", "the huge zero page, made and replaced",
	  ALWAYS "area a 512\n area b 512\n setup\n map a\n map b\n"
	  "task one\n read a 3\n write a 3\n read b 0\n"
	  "task two\n read b 1\n write b 1\n read a 3\n"
	  "task three\n read a 0\n fork k\n write a 0\n drop k\n" },
	{ "huge-split", "a huge page's mapping is split by mprotect and DONTNEED of a part, against accesses",
	  ALWAYS "area a 512\n setup\n map a\n write a 0\n write a 1\n write a 300\n"
	  "task splitter\n protect a 1 r\n read a 0-1\n protect a 1 rw\n"
	  "task zapper\n dontneed a 300\n read a 300\n write a 2\n"
	  "task writer\n write a 0-1\n write a 300\n dontneed a 5\n read a 0-2\n read a 300\n" },
	{ "huge-cow", "a huge page shared by fork, written on both sides (copied whole)",
	  ALWAYS "set quire.huge_cow=copy\narea a 512\n setup\n map a\n write a 0\n write a 5\n"
	  "task parent\n fork k\n write a 0\n read a 0\n read a 5\n"
	  "task thread\n write a 5\n write a 0\n read a 5\n"
	  "child k\n read a 0\n write a 5\n read a 0\n read a 5\n exit\n" },
	{ "huge-cow-split", "the same where a write splits the mapping",
	  ALWAYS "set quire.huge_cow=split\narea a 512\n setup\n map a\n write a 0\n write a 5\n"
	  "task parent\n fork k\n write a 0\n read a 0\n read a 5\n"
	  "task thread\n write a 5\n write a 0\n read a 5\n"
	  "child k\n read a 0\n write a 5\n read a 0\n read a 5\n exit\n" },
	{ "huge-unmap", "munmap of a part and of all of a huge page, against accesses",
	  ALWAYS "area a 512\n setup\n map a\n write a 0\n write a 511\n"
	  "task one\n unmap a 256-511\n read a 0\n unmap a 0-255\n"
	  "task two\n write a 0\n read a 511\n read a 0\n"
	  "task three\n write a 511\n read a 0\n populate a 0\n" },
	{ "huge-move", "mremap of a huge page, whole and in part",
	  ALWAYS "area a 1024\n area b 1024\n area c 512\n setup\n map a\n write a 0\n write a 7\n write a 600\n"
	  "task mover\n move a 0-511 b\n read b 0\n move b 0-7 c\n read c 7\n"
	  "task writer\n write a 7\n write b 7\n read b 0\n read c 7\n"
	  "task reader\n read a 0\n read b 7\n write a 0\n" },
	{ "huge-pin", "a pin in a huge page against fork and writes",
	  ALWAYS "area a 512\n setup\n map a\n write a 0\n"
	  "task pinner\n pin a 0\n poke\n read a 0\n poke\n read a 0\n unpin\n"
	  "task forker\n fork k\n write a 1\n read a 0-1\n"
	  "child k\n read a 0-1\n write a 0\n read a 0\n exit\n" },
};
const size_t schedules_nr_builtins = ARRAY_SIZE(schedules_builtins);

const struct schedules_builtin *schedules_builtin_find(const char *name)
{
	for (size_t i = 0; i < schedules_nr_builtins; i++)
		if (!strcmp(schedules_builtins[i].name, name))
			return &schedules_builtins[i];
	return NULL;
}
