/* quire fidelity: tables, steps in words, JSON. */
#include "cli/fidelity_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/types.h"
#include "report/json.h"
#include "report/table.h"
#include "script/ops.h"

static void label(void *arg, uint64_t addr, char *buf, size_t len)
{
	script_run_label(arg, addr, buf, len);
}

static void result_words(const struct fidelity_step *st, const struct script_result *r, char *buf, size_t len)
{
	const char *name = r->ret < 0 && r->ret > -4096 ? script_errno_name((int)-r->ret) : NULL;

	if (r->signal)
		snprintf(buf, len, "%s after %" PRIu64, r->signal == 11 ? "SIGSEGV" : "SIGBUS", r->count);
	else if (name)
		snprintf(buf, len, "-%s", name);
	else if (r->ret < 0 && r->ret > -4096)
		snprintf(buf, len, "errno %" PRId64, -r->ret);
	else if (st->call->op == SOP_MMAP || st->call->op == SOP_MREMAP || st->call->op == SOP_BRK || st->call->op == SOP_SBRK)
		script_run_label(st->run, (uint64_t)r->ret, buf, len);
	else if (st->call->op == SOP_READ)
		snprintf(buf, len, "%#" PRIx64, (uint64_t)r->value);
	else
		snprintf(buf, len, "%" PRId64, r->ret);
}

void fid_print_step(FILE *f, const struct fidelity_step *st, bool all)
{
	char text[300], what[100];

	if (!all && !st->diffs->nr)
		return;
	script_format_call(st->call, label, st->run, text, sizeof(text));
	result_words(st, st->engine, what, sizeof(what));
	fprintf(f, "%4u  line %-4u process %u  %s  = %s%s\n", st->index + 1, st->line, st->call->proc, text, what,
		st->diffs->nr_undeclared ? "   DIFFERS" : st->diffs->nr ? "   declared" : "");
	for (size_t i = 0; i < st->diffs->nr; i++) {
		const struct fidelity_diff *d = &st->diffs->v[i];

		fprintf(f, "        %s: %s%s%s%s\n", fidelity_kind_names[d->kind], d->text, d->declared ? " [declared: " : "",
			d->declared ? d->declared->name : "", d->declared ? "]" : "");
	}
}

void fid_print_first(FILE *f, const char *name, const char *machine, const struct fidelity_result *r)
{
	fprintf(f, "%s on %s, step %u (line %u): %s: %s\n", name, machine, r->first + 1, r->first_line, fidelity_kind_names[r->diff.kind],
		r->diff.text);
}

static void cell(struct table *t, uint64_t v)
{
	char buf[32];

	snprintf(buf, sizeof(buf), "%" PRIu64, v);
	table_cell(t, buf);
}

void fid_print_groups(FILE *f, const struct fid_group *g, size_t nr, bool bold)
{
	static const char *const heads[] = { "group", "scripts", "steps", "equal", "declared", "undeclared", "skipped" };
	struct fid_group sum = { .name = "all" };
	struct table t;

	table_init(&t, ARRAY_SIZE(heads));
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
		table_cell(&t, heads[i]);
	for (size_t i = 0; i <= nr; i++) {
		const struct fid_group *x = i < nr ? &g[i] : &sum;

		table_cell(&t, x->name);
		cell(&t, x->scripts);
		cell(&t, x->steps);
		cell(&t, x->equal);
		cell(&t, x->declared);
		cell(&t, x->undeclared);
		cell(&t, x->skipped);
		sum.scripts += x->scripts;
		sum.steps += x->steps;
		sum.equal += x->equal;
		sum.declared += x->declared;
		sum.undeclared += x->undeclared;
		sum.skipped += x->skipped;
	}
	table_print(&t, f, TABLE_WIDTH, bold);
	table_done(&t);
}

void fid_print_declared(FILE *f, const uint64_t *by_declared)
{
	const struct fidelity_declared *d;
	bool any = false;

	for (size_t i = 0; (d = fidelity_declared_at(i)); i++) {
		if (!by_declared[i])
			continue;
		if (!any)
			fputs("\ndeclared differences:\n", f);
		any = true;
		fprintf(f, "- %s (%" PRIu64 " steps): %s\n", d->name, by_declared[i], d->reason);
	}
}

/* ---- JSON ---- */

json_t *fid_result_json(const char *name, const char *machine, const struct fidelity_result *r)
{
	json_t *o = json_pack("{s:o, s:s, s:o, s:o, s:o, s:o}", "script", report_json_text(name), "machine", machine, "steps",
			      report_json_u64(r->steps), "equal", report_json_u64(r->equal), "declared", report_json_u64(r->declared),
			      "undeclared", report_json_u64(r->undeclared));

	if (o && r->skipped)
		json_object_set_new(o, "skipped", report_json_text(r->why));
	if (o && r->undeclared)
		json_object_set_new(o, "first", json_pack("{s:i, s:i, s:s, s:o}", "step", (int)r->first + 1, "line", (int)r->first_line, "kind",
							  fidelity_kind_names[r->diff.kind], "text", report_json_text(r->diff.text)));
	return o;
}

json_t *fid_group_json(const struct fid_group *g)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "group", report_json_text(g->name), "scripts", report_json_u64(g->scripts),
			 "steps", report_json_u64(g->steps), "equal", report_json_u64(g->equal), "declared", report_json_u64(g->declared),
			 "undeclared", report_json_u64(g->undeclared), "skipped", report_json_u64(g->skipped));
}

json_t *fid_kernel_json(const struct fidelity_kernel *k)
{
	json_t *settings = json_object();
	char value[64];

	for (size_t i = 0; i < knob_count; i++)
		if (strncmp(knob_table[i].name, "quire.", 6)) {
			knob_format(&k->knobs, &knob_table[i], value, sizeof(value));
			json_object_set_new(settings, knob_table[i].name, json_string(value));
		}
	return json_pack("{s:o, s:o}", "release", report_json_text(k->release), "settings", settings);
}

/* Relative to what a reader can know: the arena, the top of the mmap region, the heap's start. */
static json_t *place(const struct fidelity_seen *s, uint64_t addr)
{
	char buf[40];

	if (addr >= s->arena && addr - s->arena < 1ULL << 36)
		snprintf(buf, sizeof(buf), "ARENA+%#" PRIx64, addr - s->arena);
	else if (s->heap && addr >= s->heap && addr - s->heap < 1ULL << 36)
		snprintf(buf, sizeof(buf), "HEAP+%#" PRIx64, addr - s->heap);
	else if (addr <= s->top && s->top - addr < 1ULL << 40)
		snprintf(buf, sizeof(buf), "TOP-%#" PRIx64, s->top - addr);
	else
		snprintf(buf, sizeof(buf), "%#" PRIx64, addr);
	return json_string(buf);
}

/* Pages as runs of equal bits: [first, count, bits], with values where they were read. */
static json_t *pages_json(const struct script_area *a)
{
	uint64_t n = (a->end - a->start) >> PAGE_SHIFT;
	json_t *runs = json_array();

	for (uint64_t i = 0, j; a->page && i < n; i = j) {
		bool value = a->value && (a->page[i] & SPAGE_VALUE);

		for (j = i + 1; j < n && a->page[j] == a->page[i] && (!value || a->value[j] == a->value[i]); j++)
			;
		if (!a->page[i])
			continue;
		json_t *run = json_pack("[I, I, i]", (json_int_t)i, (json_int_t)(j - i), (int)a->page[i]);

		if (value)
			json_array_append_new(run, report_json_u64(a->value[i]));
		json_array_append_new(runs, run);
	}
	return runs;
}

static json_t *area_json(const struct fidelity_seen *s, const struct script_area *a)
{
	char flags[NR_SCRIPT_VMFLAGS * 3 + 1];
	json_t *smaps = json_object();
	size_t n = 0;

	flags[0] = '\0';
	for (unsigned i = 0; i < NR_SCRIPT_VMFLAGS; i++)
		if (a->vmflags >> i & 1)
			n += (size_t)snprintf(flags + n, sizeof(flags) - n, "%s%s", n ? " " : "", script_vmflag_names[i]);
	for (unsigned i = 0; i < NR_SCRIPT_SMAPS; i++)
		if (a->smap[i])
			json_object_set_new(smaps, script_smap_names[i], report_json_u64(a->smap[i]));
	json_t *o = json_pack("{s:o, s:o, s:i, s:b, s:s, s:o, s:o}", "start", place(s, a->start), "end", place(s, a->end), "prot", (int)a->prot,
			      "shared", a->shared, "flags", flags, "smaps", smaps, "pages", pages_json(a));

	if (a->file != SCRIPT_NONE) {
		json_object_set_new(o, "file", json_integer(a->file));
		json_object_set_new(o, "offset", report_json_u64(a->off));
	}
	return o;
}

json_t *fid_seen_json(const struct fidelity_seen *s)
{
	json_t *procs = json_array(), *result;
	char text[300];

	script_format_call(s->call, label, s->run, text, sizeof(text));
	for (size_t p = 0; p < s->nr_obs; p++) {
		json_t *areas = json_array(), *counters = json_object();

		for (size_t i = 0; i < s->obs[p].nr_areas; i++)
			json_array_append_new(areas, area_json(s, &s->obs[p].area[i]));
		for (size_t i = 0; i < s->obs[p].nr_vmstat; i++)
			json_object_set_new(counters, s->obs[p].vmstat[i].name, json_integer(s->obs[p].vmstat[i].delta));
		json_array_append_new(procs, json_pack("{s:i, s:o, s:o}", "process", (int)s->obs[p].proc, "areas", areas, "counters", counters));
	}
	if (s->result->ret >= 4096)
		result = place(s, (uint64_t)s->result->ret);
	else
		result = json_integer(s->result->ret);
	return json_pack("{s:i, s:i, s:o, s:o, s:i, s:o, s:o, s:o}", "step", (int)s->index + 1, "line", (int)s->line, "call",
			 report_json_text(text), "result", result, "signal", s->result->signal, "value",
			 report_json_u64((uint64_t)s->result->value), "count", report_json_u64(s->result->count), "processes", procs);
}
