/*
 * Running: a walk over the tree with a stack of blocks of its own, so that it can stop at every call and go on when its result is there.
 * Bounded by max_steps: calls, and a multiple of it for statements that are none.
 */
#include "script/run_int.h"
#include "script/parse_int.h"

#include "base/assert.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096ULL
#define MAX_SLEEP_MS 3600000
#define MAX_SETTINGS 256

/* ---- begin and end ---- */

static const struct script_variant *find_variant(const struct script *s, const char *name)
{
	for (size_t i = 0; i < s->nr_variants; i++)
		if (!strcmp(s->variant[i].name, name))
			return &s->variant[i];
	return NULL;
}

/* The settings at the head of the script, before any other statement. */
static size_t head_settings(const struct script *s)
{
	size_t n = 0;

	while (n < s->body.nr && s->body.s[n]->kind == SSTMT_CALL && s->body.s[n]->op == SOP_SET)
		n++;
	return n;
}

/* The caller's settings, the script's, then the variant's, which wins. */
static int begin_exec(struct script_run *r, size_t head)
{
	size_t nr_variant = r->variant ? r->variant->nr_set : 0, nr = r->o.nr_set + head + nr_variant, n = 0;
	struct script_setting *set = nr ? calloc(nr, sizeof(*set)) : NULL;
	int rc;

	if (nr && !set)
		return run_fail(r, -ENOMEM, NULL, "out of memory");
	for (size_t i = 0; i < r->o.nr_set; i++)
		set[n++] = r->o.set[i];
	for (size_t i = 0; i < head; i++) {
		const struct script_stmt *st = r->s->body.s[i];

		set[n++] = (struct script_setting){ .name = st->text, .value = st->unit, .line = st->line, .col = st->col };
	}
	for (size_t i = 0; i < nr_variant; i++)
		set[n++] = r->variant->set[i];
	rc = r->o.ops->begin(r->o.exec, r->s, set, n, &r->arena, &r->arena_len, r->err, r->errlen);
	free(set);
	return rc;
}

int script_run_begin(const struct script *s, const struct script_run_options *o, struct script_run **ret, char *err, size_t errlen)
{
	struct script_run *r = calloc(1, sizeof(*r));
	size_t head = head_settings(s);
	int rc = 0;

	*ret = NULL;
	if (errlen)
		err[0] = 0;
	if (r)
		r->procs = calloc(16, sizeof(*r->procs));
	if (!r || !r->procs) {
		free(r);
		snprintf(err, errlen, "%s: out of memory", s->file);
		return -ENOMEM;
	}
	*r = (struct script_run){ .s = s, .o = *o, .procs = r->procs, .cap_procs = 16, .nr_procs = 1, .alive = 1, .err = err, .errlen = errlen };
	r->procs[0].alive = true;
	r->max_steps = o->max_steps ? o->max_steps : SCRIPT_MAX_STEPS;
	r->frame[0] = (struct run_frame){ .b = &s->body, .i = head };
	r->depth = 1;
	if (o->variant) {
		r->variant = find_variant(s, o->variant);
		if (!r->variant)
			rc = run_fail(r, -EINVAL, NULL, "no variant '%s'", o->variant);
	}
	if (!rc)
		rc = begin_exec(r, head);
	if (rc) {
		script_run_end(r);
		return rc;
	}
	*ret = r;
	return 0;
}

void script_run_end(struct script_run *r)
{
	if (!r)
		return;
	r->o.ops->end(r->o.exec);
	free(r->bind);
	free(r->procs);
	free(r->areas);
	free(r);
}

const struct script_run_counts *script_run_counts(const struct script_run *r)
{
	return &r->counts;
}

const struct script_stmt *script_run_stmt(const struct script_run *r)
{
	return r->stmt;
}

/* ---- calls ---- */

/* What a parameter is worth: its field of the call. */
static int fill_param(struct script_run *r, const struct script_stmt *st, unsigned i, struct script_call *c)
{
	const struct script_param *pm = &script_op_table[st->op].param[i];
	const struct bind *b;
	int64_t v = pm->def;
	int rc = 0;

	if (pm->kind == SPARAM_FILE && st->arg[i]) {
		b = run_lookup(r, st->arg[i], BIND_FILE, &rc);
		v = b ? b->value : 0;
	} else if (st->arg[i]) {
		rc = run_eval(r, st->arg[i], &v);
	}
	if (rc)
		return rc;
	if (pm->kind == SPARAM_RANGE_END) {
		/* Alone: one access. Else the end, of which the length is made. */
		v = st->arg[i] ? (int64_t)((uint64_t)v - c->addr) : 1;
		if (v < 0)
			return run_fail(r, -EINVAL, st->arg[i], "the range ends before it begins");
	}
	if (pm->kind == SPARAM_RANGE_STEP && v <= 0)
		return run_fail(r, -EINVAL, st->arg[i], "a step is at least 1");
	if (pm->kind == SPARAM_RANGE_STEP && c->len / (uint64_t)v > SCRIPT_MAX_ACCESSES)
		return run_fail(r, -EINVAL, st->arg[i], "more than %d accesses in one call", SCRIPT_MAX_ACCESSES);
	script_field_set(c, pm->field, v);
	return 0;
}

static int refuse(struct script_run *r, const char *what, int64_t value, const char *allowed)
{
	return run_fail(r, -EINVAL, NULL, "%s %" PRId64 ": %s", what, value, allowed);
}

/* What executors may rely on. */
static int check_call(struct script_run *r, const struct script_call *c)
{
	switch (c->op) {
	case SOP_MMAP:
		if (c->align && (c->align < PAGE_BYTES || c->align & (c->align - 1) || c->align > 1ULL << 40))
			return refuse(r, "align", (int64_t)c->align, "a power of two from 4096 to 1T");
		if (c->align && c->len > 1ULL << 46)
			return refuse(r, "length", (int64_t)c->len, "with align at most 64T");
		return 0;
	case SOP_PREAD:
	case SOP_PWRITE:
	case SOP_FILE_READ:
	case SOP_FILE_WRITE:
		if ((c->addr | c->off | c->len) & 7)
			return refuse(r, "copy of", (int64_t)c->len, "address, offset and length are multiples of 8");
		if (c->len > 1ULL << 32 || c->off > 1ULL << 40)
			return refuse(r, "copy of", (int64_t)c->len, "at most 4G, below 1T of the file");
		return 0;
	case SOP_FILE_CREATE:
	case SOP_FILE_TRUNCATE:
		return c->len > 1ULL << 40 ? refuse(r, "a file of", (int64_t)c->len, "at most 1T") : 0;
	case SOP_MOVE_PAGES:
	case SOP_SPLIT:
	case SOP_PIN:
		return c->len > 1ULL << 36 ? refuse(r, "length", (int64_t)c->len, "at most 64G") : 0;
	case SOP_SLEEP:
		return c->value < 0 || c->value > MAX_SLEEP_MS ? refuse(r, "sleep", c->value, "0 to 3600000 ms") : 0;
	case SOP_BOOT:
		if (c->len > 1ULL << 46 || c->len2 > c->len)
			return refuse(r, "boot of", (int64_t)c->len, "at most 64T, and no more of it early");
		if (c->value < 0 || c->value > 256 || c->off > 4096 || c->mode > 2)
			return refuse(r, "boot with workers", c->value, "0 to 256, at most 4096 gigantic pages, tails all, kept or failed");
		return 0;
	case SOP_CLEAR_AHEAD:
	case SOP_DEFERRED_SPLIT:
	case SOP_RECLAIM:
		return c->value < 0 ? refuse(r, "pages", c->value, "from 0") : 0;
	case SOP_KHUGEPAGED:
		return c->value < 1 || c->value > 1000 ? refuse(r, "rounds", c->value, "1 to 1000") : 0;
	case SOP_CPU:
	case SOP_THREAD:
		return c->value < -(c->op == SOP_THREAD) || c->value > 65535 ? refuse(r, "CPU", c->value, "0 to 65535") : 0;
	default:
		return 0;
	}
}

static int new_proc(struct script_run *r, uint32_t *ret)
{
	struct run_proc *p;

	if (r->alive == SCRIPT_MAX_PROCS)
		return run_fail(r, -EINVAL, NULL, "too many processes at once, at most %d", SCRIPT_MAX_PROCS);
	if (r->nr_procs == r->cap_procs) {
		p = realloc(r->procs, 2ULL * r->cap_procs * sizeof(*p));
		if (!p)
			return run_fail(r, -ENOMEM, NULL, "out of memory");
		r->procs = p;
		r->cap_procs *= 2;
	}
	*ret = r->nr_procs;
	return 0;
}

static int fill_noun(struct script_run *r, const struct script_stmt *st, struct script_call *c)
{
	static const enum bind_kind kinds[] = { [SNOUN_FILE] = BIND_FILE, [SNOUN_PROC] = BIND_PROC, [SNOUN_PIN] = BIND_PIN };
	enum script_noun noun = script_op_table[st->op].noun;
	const struct bind *b;
	int rc = 0;

	switch (noun) {
	case SNOUN_NEW_FILE:
		c->file = r->nr_files;
		return 0;
	case SNOUN_NEW_PROC:
		return new_proc(r, &c->target);
	case SNOUN_NEW_THREAD:
		if (r->nr_threads == SCRIPT_MAX_THREADS)
			return run_fail(r, -EINVAL, st->dest, "too many threads, at most %d", SCRIPT_MAX_THREADS);
		c->target = r->nr_threads + 1;
		return 0;
	case SNOUN_NEW_PIN:
		c->target = r->nr_pins;
		return 0;
	case SNOUN_FILE:
	case SNOUN_PROC:
	case SNOUN_PIN:
		b = run_lookup(r, st->dest, kinds[noun], &rc);
		if (!b)
			return rc;
		*(noun == SNOUN_FILE ? &c->file : &c->target) = (uint32_t)b->value;
		return 0;
	default:
		return 0;
	}
}

static int check_process(struct script_run *r, const struct script_stmt *st, const struct script_call *c)
{
	if (!r->procs[r->proc].alive)
		return run_fail(r, -EINVAL, NULL, "this process has ended");
	if (st->op == SOP_EXIT && !c->proc)
		return run_fail(r, -EINVAL, NULL, "the first process ends with the script");
	if (st->op == SOP_WAIT && r->procs[c->target].alive && r->procs[c->target].parent == c->proc && c->target)
		return run_fail(r, -EINVAL, st->dest, "%s has not ended: this would wait for ever", r->s->names[st->dest->name]);
	return 0;
}

static int make_call(struct script_run *r, const struct script_stmt *st)
{
	const struct script_op_info *info = &script_op_table[st->op];
	struct script_call *c = &r->call;
	int rc;

	if (r->counts.steps == r->max_steps)
		return run_fail(r, -EINVAL, NULL, "more than %" PRIu64 " calls", r->max_steps);
	*c = (struct script_call){ .op = st->op, .proc = r->proc, .thread = r->thread, .target = SCRIPT_NONE, .file = SCRIPT_NONE,
				   .line = st->line };
	if (info->noun == SNOUN_SETTING) {
		c->name = st->text;
		c->text = st->unit;
	}
	rc = fill_noun(r, st, c);
	for (unsigned i = 0; !rc && i < SCRIPT_MAX_ARGS && info->param[i].kind != SPARAM_NONE; i++)
		rc = fill_param(r, st, i, c);
	/* A file that was given, or none: mmap with file= and no flags maps it privately. */
	if (!rc && st->op == SOP_MMAP && c->file != SCRIPT_NONE && !st->arg[2])
		c->flags = 2;
	if (!rc)
		rc = check_process(r, st, c);
	return rc ? rc : check_call(r, c);
}

/* ---- results ---- */

static int after_success(struct script_run *r, const struct script_stmt *st, const struct script_result *res)
{
	const struct script_call *c = &r->call;

	switch (st->op) {
	case SOP_FILE_CREATE:
		r->nr_files++;
		return run_bind(r, st->dest, BIND_FILE, c->file);
	case SOP_FORK:
		r->procs[r->nr_procs++] = (struct run_proc){ .parent = c->proc, .alive = true };
		r->alive++;
		return run_bind(r, st->dest, BIND_PROC, c->target);
	case SOP_THREAD:
		r->threads[++r->nr_threads] = (struct run_thread){ .proc = c->proc };
		return run_bind(r, st->dest, BIND_THREAD, c->target);
	case SOP_PIN:
		r->nr_pins++;
		return run_bind(r, st->dest, BIND_PIN, c->target);
	case SOP_EXIT:
		r->procs[c->proc].alive = false;
		r->alive--;
		return 0;
	case SOP_WAIT:
		r->procs[c->target].waited = true;
		return 0;
	case SOP_MMAP:
		return st->dest ? run_area_add(r, st->dest, (uint64_t)res->ret, c->len) : 0;
	case SOP_MREMAP:
		return st->dest ? run_area_add(r, st->dest, (uint64_t)res->ret, c->len2) : 0;
	default:
		return 0;
	}
}

/* What fails under keep_going is still known by its name, so that later statements fail in the same way everywhere. */
static int bind_failed(struct script_run *r, const struct script_stmt *st)
{
	static const enum bind_kind kinds[] = {
		[SNOUN_NEW_FILE] = BIND_FILE, [SNOUN_NEW_PROC] = BIND_PROC, [SNOUN_NEW_THREAD] = BIND_THREAD, [SNOUN_NEW_PIN] = BIND_PIN,
	};
	enum script_noun noun = script_op_table[st->op].noun;

	if (noun < SNOUN_NEW_FILE || noun > SNOUN_NEW_PIN)
		return 0;
	return run_fail(r, -EBADMSG, st->dest, "%s has failed (%s): what comes after needs %s", script_op_table[st->op].word,
			strerror((int)-r->last.ret), kinds[noun] == BIND_PROC ? "the process" : "it");
}

static int bind_result(struct script_run *r, const struct script_stmt *st)
{
	int64_t v = r->last.ret;

	if (!st->dest || script_op_table[st->op].noun != SNOUN_NONE)
		return 0;
	if (v >= 0 && script_op_table[st->op].gives == SGIVES_VALUE)
		v = r->last.value;
	else if (v >= 0 && script_op_table[st->op].gives == SGIVES_COUNT)
		v = (int64_t)r->last.count;
	return run_bind(r, st->dest, BIND_VALUE, v);
}

static void outcome(const struct script_result *res, char *buf, size_t len)
{
	const char *name = res->ret < 0 ? script_errno_name((int)-res->ret) : NULL;

	if (res->signal)
		snprintf(buf, len, "%s", res->signal == 7 ? "SIGBUS" : "SIGSEGV");
	else if (name)
		snprintf(buf, len, "%s", name);
	else if (res->ret < 0)
		snprintf(buf, len, "error %" PRId64, -res->ret);
	else
		snprintf(buf, len, "no error");
}

static void label(void *arg, uint64_t addr, char *buf, size_t len)
{
	script_run_label(arg, addr, buf, len);
}

static int check_result(struct script_run *r, const struct script_stmt *st, const struct script_result *res)
{
	bool failed = res->ret < 0 || res->signal, ok;
	char text[300], got[40], want[40];

	if (st->any_err)
		return 0;
	if (st->expect_sig)
		ok = res->signal == st->expect_sig;
	else if (st->expect_err)
		ok = !res->signal && res->ret == -st->expect_err;
	else
		ok = !failed;
	if (ok)
		return 0;
	outcome(res, got, sizeof(got));
	if (st->expect_sig)
		outcome(&(struct script_result){ .signal = st->expect_sig }, want, sizeof(want));
	else
		outcome(&(struct script_result){ .ret = -st->expect_err }, want, sizeof(want));
	script_format_call(&r->call, label, r, text, sizeof(text));
	return run_fail(r, -EBADMSG, NULL, "%s: %s, expected %s", text, got, want);
}

int script_run_result(struct script_run *r, const struct script_result *res, char *err, size_t errlen)
{
	const struct script_stmt *st = r->stmt;
	int rc = 0;

	ASSERT(r->waiting);
	r->waiting = false;
	r->last = *res;
	r->err = err;
	r->errlen = errlen;
	r->counts.steps++;
	if (!r->o.keep_going)
		rc = check_result(r, st, res);
	if (!rc)
		rc = res->ret < 0 ? bind_failed(r, st) : after_success(r, st, res);
	return rc ? rc : bind_result(r, st);
}

/* ---- other statements ---- */

static int push(struct script_run *r, const struct script_block *b)
{
	if (r->depth == ARRAY_SIZE(r->frame))
		return run_fail(r, -EINVAL, NULL, "blocks are too deep");
	r->frame[r->depth++] = (struct run_frame){ .b = b, .proc = r->proc, .thread = r->thread };
	return 0;
}

static int begin_for(struct script_run *r, const struct script_stmt *st)
{
	int64_t from = 0, to = 0;
	int rc = run_eval(r, st->expr[0], &from);

	if (!rc)
		rc = run_eval(r, st->expr[1], &to);
	if (rc || from > to)
		return rc;
	rc = push(r, &st->body);
	if (rc)
		return rc;
	r->frame[r->depth - 1].loop = st;
	r->frame[r->depth - 1].next = from;
	r->frame[r->depth - 1].last = to;
	return run_bind_name(r, st->name, BIND_VALUE, from);
}

/* The block at the top is at its end: once more, or back to where it was entered. */
static int end_block(struct script_run *r)
{
	struct run_frame *f = &r->frame[r->depth - 1];

	if (f->loop && f->next < f->last) {
		f->i = 0;
		r->proc = f->proc;
		r->thread = f->thread;
		return run_bind_name(r, f->loop->name, BIND_VALUE, ++f->next);
	}
	r->proc = f->proc;
	r->thread = f->thread;
	r->depth--;
	return 0;
}

static int enter(struct script_run *r, const struct script_stmt *st)
{
	bool thread = st->kind == SSTMT_THREAD;
	int rc = 0;
	const struct bind *b = run_lookup(r, st->dest, thread ? BIND_THREAD : BIND_PROC, &rc);

	if (!b)
		return rc;
	uint32_t number = (uint32_t)b->value;

	rc = push(r, &st->body);
	if (rc)
		return rc;
	r->proc = thread ? r->threads[number].proc : number;
	r->thread = thread ? number : 0;
	if (!r->procs[r->proc].alive)
		return run_fail(r, -EINVAL, st->dest, "%s has ended", r->s->names[st->dest->name]);
	return 0;
}

static void tell_expect(struct script_run *r, const struct script_stmt *st, bool ok, int64_t left, int64_t right)
{
	char text[400];
	FILE *f;

	r->counts.expects++;
	r->counts.failed += !ok;
	if (!r->o.on_expect)
		return;
	text[0] = 0;
	f = fmemopen(text, sizeof(text), "w");
	if (f) {
		script_print_expr(r->s, st->expr[0], f);
		if (st->kind == SSTMT_APPROX) {
			fputs(" ~= ", f);
			script_print_expr(r->s, st->expr[1], f);
			fprintf(f, " %" PRId64 "%%", st->expr[2]->i);
		}
		fclose(f);
	}
	text[sizeof(text) - 1] = 0;
	r->o.on_expect(r->o.arg, st, ok, text, left, right);
}

static bool near(int64_t a, int64_t b, int64_t percent)
{
	__int128 diff = (__int128)a - b, most = (__int128)(b < 0 ? -(__int128)b : b) * percent;

	return (diff < 0 ? -diff : diff) * 100 <= most;
}

static int expect(struct script_run *r, const struct script_stmt *st)
{
	int64_t left = 0, right = 0;
	bool ok = false;
	int rc;

	if (r->o.no_expect || (st->variant && (!r->variant || strcmp(st->variant, r->variant->name))))
		return 0;
	if (st->kind == SSTMT_EXPECT) {
		rc = run_compare(r, st->expr[0], &left, &right, &ok);
	} else {
		rc = run_eval(r, st->expr[0], &left);
		if (!rc)
			rc = run_eval(r, st->expr[1], &right);
		ok = near(left, right, st->expr[2]->i);
	}
	if (!rc)
		tell_expect(r, st, ok, left, right);
	return rc;
}

static int report(struct script_run *r, const struct script_stmt *st)
{
	int64_t v = 0;
	int rc;

	if (r->o.no_expect)
		return 0;
	rc = run_eval(r, st->expr[0], &v);
	if (rc)
		return rc;
	r->counts.reports++;
	if (r->o.on_report)
		r->o.on_report(r->o.arg, st, st->text, v, st->unit);
	return 0;
}

static int walk(struct script_run *r, const struct script_stmt *st)
{
	int64_t v = 0;
	int rc;

	switch (st->kind) {
	case SSTMT_LET:
		rc = run_eval(r, st->expr[0], &v);
		return rc ? rc : run_bind(r, st->dest, BIND_VALUE, v);
	case SSTMT_FOR:
		return begin_for(r, st);
	case SSTMT_IF:
		rc = run_eval(r, st->expr[0], &v);
		return rc ? rc : push(r, v ? &st->body : &st->other);
	case SSTMT_PROC:
	case SSTMT_THREAD:
		return enter(r, st);
	case SSTMT_MARK:
		return r->o.ops->mark(r->o.exec, r->err, r->errlen);
	case SSTMT_EXPECT:
	case SSTMT_APPROX:
		return expect(r, st);
	case SSTMT_REPORT:
		return report(r, st);
	case SSTMT_CALL:
		break;
	}
	rc = make_call(r, st);
	r->waiting = !rc;
	return rc;
}

int script_run_next(struct script_run *r, struct script_call *call, char *err, size_t errlen)
{
	ASSERT(!r->waiting);
	r->err = err;
	r->errlen = errlen;
	if (errlen)
		err[0] = 0;
	while (r->depth) {
		struct run_frame *f = &r->frame[r->depth - 1];
		int rc;

		/* Calls are counted as such; this is for loops without any. */
		if (++r->walked / 16 > r->max_steps)
			return run_fail(r, -EINVAL, NULL, "more than %" PRIu64 " statements", r->max_steps * 16);
		if (f->i == f->b->nr) {
			rc = end_block(r);
		} else {
			r->stmt = f->b->s[f->i++];
			rc = walk(r, r->stmt);
		}
		if (rc)
			return rc;
		if (r->waiting) {
			*call = r->call;
			return 1;
		}
	}
	return 0;
}

/* What the executor says gets its place, unless it has one. */
static int step(struct script_run *r, const struct script_call *call, struct script_result *res, char *err, size_t errlen)
{
	size_t file = strlen(r->s->file);
	char why[400] = "";
	int rc = r->o.ops->step(r->o.exec, call, res, why, sizeof(why));

	r->err = err;
	r->errlen = errlen;
	if (rc && !strncmp(why, r->s->file, file) && why[file] == ':')
		snprintf(err, errlen, "%s", why);
	else if (rc)
		(void)run_fail(r, rc, NULL, "%s", why);
	return rc;
}

int script_run_all(const struct script *s, const struct script_run_options *o, struct script_run_counts *ret, char *err, size_t errlen)
{
	struct script_result res;
	struct script_call call;
	struct script_run *r;
	int rc = script_run_begin(s, o, &r, err, errlen);

	*ret = (struct script_run_counts){ 0 };
	if (rc)
		return rc;
	while ((rc = script_run_next(r, &call, err, errlen)) > 0) {
		res = (struct script_result){ 0 };
		rc = step(r, &call, &res, err, errlen);
		if (rc)
			break;
		rc = script_run_result(r, &res, err, errlen);
		if (rc)
			break;
	}
	*ret = r->counts;
	script_run_end(r);
	return rc;
}
