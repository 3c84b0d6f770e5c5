/*
 * Names and expressions. Numbers are 64 bits, signed; what does not fit is an error, as is a division by zero. A name that a script
 * has not bound is looked for among the run's own words and then asked of the executor.
 */
#include "script/run_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int run_fail(struct script_run *r, int rc, const struct script_expr *e, const char *fmt, ...)
{
	uint32_t line = e ? e->line : r->stmt ? r->stmt->line : 1, col = e ? e->col : r->stmt ? r->stmt->col : 1;
	int n = snprintf(r->err, r->errlen, "%s:%u:%u: ", r->s->file, line, col);
	va_list ap;

	va_start(ap, fmt);
	if (n >= 0 && (size_t)n < r->errlen)
		vsnprintf(r->err + n, r->errlen - (size_t)n, fmt, ap);
	va_end(ap);
	return rc;
}

/* ---- names ---- */

static size_t slot(const struct script_run *r, uint32_t name, uint32_t index)
{
	uint64_t h = ((uint64_t)name << 32 | index) * 0x9e3779b97f4a7c15ULL;

	return (size_t)(h >> 32) & (r->cap_binds - 1);
}

/* Where it is, or where it would go. */
static struct bind *find(struct script_run *r, uint32_t name, uint32_t index)
{
	size_t i = slot(r, name, index);

	while (r->bind[i].kind != BIND_NONE && (r->bind[i].name != name || r->bind[i].index != index))
		i = (i + 1) & (r->cap_binds - 1);
	return &r->bind[i];
}

/* At most half full. */
static int make_room(struct script_run *r)
{
	struct bind *old = r->bind;
	size_t cap = r->cap_binds;

	if (2 * (r->nr_binds + 1) <= cap)
		return 0;
	if (r->nr_binds >= SCRIPT_MAX_BINDS)
		return run_fail(r, -EINVAL, NULL, "more than %d names with an index", SCRIPT_MAX_BINDS);
	r->bind = calloc(cap ? 2 * cap : 64, sizeof(*r->bind));
	if (!r->bind) {
		r->bind = old;
		return run_fail(r, -ENOMEM, NULL, "out of memory");
	}
	r->cap_binds = cap ? 2 * cap : 64;
	for (size_t i = 0; i < cap; i++)
		if (old[i].kind != BIND_NONE)
			*find(r, old[i].name, old[i].index) = old[i];
	free(old);
	return 0;
}

static int bind_at(struct script_run *r, uint32_t name, uint32_t index, enum bind_kind kind, int64_t value)
{
	struct bind *b;
	int rc = make_room(r);

	if (rc)
		return rc;
	b = find(r, name, index);
	r->nr_binds += b->kind == BIND_NONE;
	*b = (struct bind){ .name = name, .index = index, .kind = kind, .value = value };
	return 0;
}

int run_index(struct script_run *r, const struct script_expr *e, uint32_t *ret)
{
	int64_t i;
	int rc;

	*ret = 0;
	if (!e->nr)
		return 0;
	rc = run_eval(r, e->a[0], &i);
	if (!rc && (i < 0 || i >= SCRIPT_MAX_INDEX))
		rc = run_fail(r, -EINVAL, e->a[0], "index %" PRId64 ": from 0 to %d", i, SCRIPT_MAX_INDEX - 1);
	if (!rc)
		*ret = (uint32_t)i + 1;
	return rc;
}

int run_bind(struct script_run *r, const struct script_expr *e, enum bind_kind kind, int64_t value)
{
	uint32_t index;
	int rc = run_index(r, e, &index);

	return rc ? rc : bind_at(r, e->name, index, kind, value);
}

int run_bind_name(struct script_run *r, uint32_t name, enum bind_kind kind, int64_t value)
{
	return bind_at(r, name, 0, kind, value);
}

static const char *kind_name(enum bind_kind kind)
{
	static const char *const names[] = {
		[BIND_NONE] = "nothing", [BIND_VALUE] = "a number", [BIND_FILE] = "a file", [BIND_PROC] = "a process",
		[BIND_THREAD] = "a thread", [BIND_PIN] = "a pin",
	};

	return names[kind];
}

const struct bind *run_lookup(struct script_run *r, const struct script_expr *e, enum bind_kind kind, int *ret_rc)
{
	static const struct bind first = { .kind = BIND_PROC, .value = 0 };
	const struct bind *b = NULL;
	uint32_t index;

	if (kind == BIND_PROC && !e->nr && !strcmp(r->s->names[e->name], "main"))
		return &first;
	*ret_rc = run_index(r, e, &index);
	if (*ret_rc)
		return NULL;
	if (r->nr_binds)
		b = find(r, e->name, index);
	if (b && b->kind == kind)
		return b;
	*ret_rc = run_fail(r, -EINVAL, e, "%s%s is %s here, not %s", r->s->names[e->name], e->nr ? "[...]" : "",
			   kind_name(b ? b->kind : BIND_NONE), kind_name(kind));
	return NULL;
}

/* ---- values ---- */

static bool own_word(const struct script_run *r, const char *name, int64_t *ret)
{
	const struct script_result *l = &r->last;
	const struct {
		const char *name;
		int64_t value;
	} words[] = {
		{ "result", l->ret }, { "errno", l->ret < 0 ? -l->ret : 0 }, { "value", l->value }, { "count", (int64_t)l->count },
		{ "signal", l->signal }, { "ARENA", (int64_t)r->arena },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (!strcmp(words[i].name, name)) {
			*ret = words[i].value;
			return true;
		}
	return false;
}

static int ask(struct script_run *r, const struct script_expr *e, const char *name, unsigned nr, int64_t *ret)
{
	struct script_counter_ref ref = { .name = name, .nr = nr, .proc = r->proc, .thread = r->thread };
	char why[300] = "";
	int rc;

	for (unsigned i = 0; i < nr; i++) {
		rc = run_eval(r, e->a[i], &ref.arg[i]);
		if (rc)
			return rc;
	}
	rc = r->o.ops->counter(r->o.exec, &ref, ret, why, sizeof(why));
	if (rc == -ENOENT)
		return run_fail(r, -EINVAL, e, "%s: no such name%s%s", name, why[0] ? "; " : "", why);
	return rc ? run_fail(r, rc, e, "%s: %s", name, why[0] ? why : strerror(-rc)) : 0;
}

static int eval_counter(struct script_run *r, const struct script_expr *e, int64_t *ret)
{
	if (!strncmp(e->text, "variant.", 8) && !e->nr) {
		*ret = r->variant && !strcmp(r->variant->name, e->text + 8);
		return 0;
	}
	return ask(r, e, e->text, e->nr, ret);
}

static int eval_name(struct script_run *r, const struct script_expr *e, int64_t *ret)
{
	const char *name = r->s->names[e->name];
	const struct bind *b = NULL;
	uint32_t index;
	int rc = run_index(r, e, &index);

	if (rc)
		return rc;
	if (r->nr_binds)
		b = find(r, e->name, index);
	if (b && b->kind == BIND_VALUE) {
		*ret = b->value;
		return 0;
	}
	if (b && b->kind != BIND_NONE)
		return run_fail(r, -EINVAL, e, "%s is %s, not a number", name, kind_name(b->kind));
	if (e->nr)
		return run_fail(r, -EINVAL, e, "%s[%u] has no value yet", name, index - 1);
	return own_word(r, name, ret) ? 0 : ask(r, e, name, 0, ret);
}

static int arithmetic(struct script_run *r, const struct script_expr *e, int64_t a, int64_t b, int64_t *ret)
{
	bool overflow = false;

	if ((e->op == '/' || e->op == '%') && !b)
		return run_fail(r, -EINVAL, e->a[1], "division by zero");
	switch (e->op) {
	case '+': overflow = __builtin_add_overflow(a, b, ret); break;
	case '-': overflow = __builtin_sub_overflow(a, b, ret); break;
	case '*': overflow = __builtin_mul_overflow(a, b, ret); break;
	case '/': overflow = a == INT64_MIN && b == -1; *ret = overflow ? 0 : a / b; break;
	case '%': *ret = b == -1 ? 0 : a % b; break;
	case '<': *ret = a < b; break;
	case '>': *ret = a > b; break;
	case 'l': *ret = a <= b; break;
	case 'g': *ret = a >= b; break;
	case '=': *ret = a == b; break;
	default: *ret = a != b; break;
	}
	return overflow ? run_fail(r, -EOVERFLOW, e, "the result does not fit into 64 bits") : 0;
}

int run_eval(struct script_run *r, const struct script_expr *e, int64_t *ret)
{
	int64_t a = 0, b = 0;
	int rc = 0;

	switch (e->kind) {
	case SEXPR_INT:
		*ret = e->i;
		return 0;
	case SEXPR_NAME:
		return eval_name(r, e, ret);
	case SEXPR_COUNTER:
		return eval_counter(r, e, ret);
	case SEXPR_UNARY:
		rc = run_eval(r, e->a[0], &a);
		if (!rc && e->op == '-' && a == INT64_MIN)
			return run_fail(r, -EOVERFLOW, e, "the result does not fit into 64 bits");
		*ret = e->op == '-' ? -a : !a;
		return rc;
	case SEXPR_BINARY:
		break;
	}
	rc = run_eval(r, e->a[0], &a);
	if (rc)
		return rc;
	if (e->op == '&' || e->op == '|') {
		if (!a == (e->op == '&')) { /* decided */
			*ret = e->op == '|';
			return 0;
		}
		rc = run_eval(r, e->a[1], &b);
		*ret = b != 0;
		return rc;
	}
	rc = run_eval(r, e->a[1], &b);
	return rc ? rc : arithmetic(r, e, a, b, ret);
}

int run_compare(struct script_run *r, const struct script_expr *e, int64_t *left, int64_t *right, bool *ok)
{
	bool both = e->kind == SEXPR_BINARY && strchr("<>lg=!", e->op);
	int64_t v = 0;
	int rc;

	*right = 0;
	rc = run_eval(r, both ? e->a[0] : e, left);
	if (rc)
		return rc;
	v = *left;
	if (both) {
		rc = run_eval(r, e->a[1], right);
		if (!rc)
			rc = arithmetic(r, e, *left, *right, &v);
	}
	*ok = v != 0;
	return rc;
}
