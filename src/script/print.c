/* The tree, and calls, as text that the parser reads again. Numbers keep the way they were written. */
#include "script/parse_int.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- expressions ---- */

static unsigned binding(char op)
{
	switch (op) {
	case '|': return 1;
	case '&': return 2;
	case '+':
	case '-': return 4;
	case '*':
	case '/':
	case '%': return 5;
	default: return 3;
	}
}

static const char *op_text(char op)
{
	switch (op) {
	case '|': return " || ";
	case '&': return " && ";
	case 'l': return " <= ";
	case 'g': return " >= ";
	case '=': return " == ";
	case '!': return " != ";
	case '<': return " < ";
	case '>': return " > ";
	case '+': return "+";
	case '-': return "-";
	case '*': return "*";
	case '/': return "/";
	default: return "%";
	}
}

static void print_int(const struct script_expr *e, FILE *to)
{
	static const char units[] = "KMGT";
	const char *u = e->unit ? strchr(units, e->unit) : NULL;
	unsigned shift = u ? 10 * (unsigned)(u - units + 1) : e->unit == 'p' ? 12 : 0;

	if (e->unit == 'x')
		fprintf(to, "0x%" PRIx64, (uint64_t)e->i);
	else if (shift)
		fprintf(to, "%" PRIu64 "%c", (uint64_t)e->i >> shift, e->unit);
	else
		fprintf(to, "%" PRIu64, (uint64_t)e->i);
}

/* Anything that binds less than `least` is put in parentheses. */
static void print_at(const struct script *s, const struct script_expr *e, unsigned least, FILE *to)
{
	unsigned own = e->kind == SEXPR_BINARY ? binding(e->op) : 6;

	if (own < least)
		fputc('(', to);
	switch (e->kind) {
	case SEXPR_INT:
		print_int(e, to);
		break;
	case SEXPR_NAME:
	case SEXPR_COUNTER:
		fputs(e->kind == SEXPR_NAME ? s->names[e->name] : e->text, to);
		for (unsigned i = 0; i < e->nr; i++) {
			fputs(i ? ", " : e->kind == SEXPR_NAME ? "[" : "(", to);
			print_at(s, e->a[i], 0, to);
		}
		if (e->nr)
			fputc(e->kind == SEXPR_NAME ? ']' : ')', to);
		break;
	case SEXPR_BINARY:
		/* Chains lean to the left; comparisons make no chains. */
		print_at(s, e->a[0], own == 3 ? 4 : own, to);
		fputs(op_text(e->op), to);
		print_at(s, e->a[1], own + 1, to);
		break;
	case SEXPR_UNARY:
		fputc(e->op, to);
		print_at(s, e->a[0], 6, to);
		break;
	}
	if (own < least)
		fputc(')', to);
}

void script_print_expr(const struct script *s, const struct script_expr *e, FILE *to)
{
	print_at(s, e, 0, to);
}

/* A parameter beside others: one that began with '-' would be taken as a difference, a comparison as the end. */
static void print_param(const struct script *s, const struct script_expr *e, FILE *to)
{
	const struct script_expr *first = e;

	while (first->kind == SEXPR_BINARY)
		first = first->a[0];
	if (first->kind != SEXPR_UNARY) {
		print_at(s, e, 4, to);
		return;
	}
	fputc('(', to);
	print_at(s, e, 0, to);
	fputc(')', to);
}

/* ---- words ---- */

static void print_prot(uint64_t v, FILE *to)
{
	if (v & ~0x03000007ULL) {
		fprintf(to, "0x%" PRIx64, v);
		return;
	}
	if (!(v & 7))
		fputs("none", to);
	for (unsigned i = 0; i < 3; i++)
		if (v & 1U << i)
			fputc("rwx"[i], to);
	fputs(v & 0x01000000 ? "+growsdown" : "", to);
	fputs(v & 0x02000000 ? "+growsup" : "", to);
}

static void print_flags(const struct script_word *w, uint64_t v, FILE *to)
{
	uint64_t left = v;
	const char *comma = "";

	for (; w->name; w++) {
		/* Words of several bits come after their parts. */
		if (w->value ? (left & w->value) != w->value : v != 0)
			continue;
		fprintf(to, "%s%s", comma, w->name);
		comma = ",";
		left &= ~(uint64_t)w->value;
	}
	if (left)
		fprintf(to, "%s0x%" PRIx64, comma, left);
}

static void print_nodes(uint64_t v, FILE *to)
{
	const char *comma = "";

	for (unsigned i = 0; i < 64; i++)
		if (v >> i & 1) {
			fprintf(to, "%s%u", comma, i);
			comma = ",";
		}
}

void script_print_words(enum script_param_kind kind, const struct script_word *w, int64_t v, FILE *to)
{
	if (kind == SPARAM_PROT) {
		print_prot((uint64_t)v, to);
	} else if (kind == SPARAM_NODES) {
		print_nodes((uint64_t)v, to);
	} else if (kind == SPARAM_FLAGS) {
		print_flags(w, (uint64_t)v, to);
	} else {
		while (w->name && w->value != v)
			w++;
		if (w->name)
			fputs(w->name, to);
		else
			fprintf(to, "%" PRId64, v);
	}
}

static bool is_words(enum script_param_kind k)
{
	return k == SPARAM_FLAGS || k == SPARAM_ENUM || k == SPARAM_PROT || k == SPARAM_NODES;
}

static void print_value(const struct script *s, const struct script_param *pm, const struct script_expr *e, FILE *to)
{
	if (is_words(pm->kind))
		script_print_words(pm->kind, pm->words, e->i, to);
	else
		print_param(s, e, to);
}

/* ---- statements ---- */

static void print_quoted(const char *text, FILE *to)
{
	fprintf(to, "\"%s\"", text);
}

static void print_call(const struct script *s, const struct script_stmt *st, FILE *to)
{
	const struct script_op_info *info = &script_op_table[st->op];

	if (st->dest && info->noun == SNOUN_NONE) {
		script_print_expr(s, st->dest, to);
		fputs(" = ", to);
	}
	fputs(info->word, to);
	if (info->sub)
		fprintf(to, " %s", info->sub);
	if (info->noun == SNOUN_SETTING) {
		fputc(' ', to);
		print_quoted(st->text, to);
		fputc(' ', to);
		print_quoted(st->unit, to);
	} else if (info->noun != SNOUN_NONE) {
		fputc(' ', to);
		script_print_expr(s, st->dest, to);
	}
	for (unsigned i = 0; i < SCRIPT_MAX_ARGS && info->param[i].kind != SPARAM_NONE; i++) {
		const struct script_param *pm = &info->param[i];

		if (!st->arg[i])
			continue;
		fputs(pm->kind == SPARAM_RANGE_END ? ".." : " ", to);
		if (pm->kind == SPARAM_RANGE_STEP)
			fputs("step ", to);
		if (pm->key)
			fprintf(to, "%s=", pm->key);
		print_value(s, pm, st->arg[i], to);
	}
	if (st->any_err)
		fputs(" -> any", to);
	else if (st->expect_sig)
		fputs(st->expect_sig == SIGBUS ? " -> SIGBUS" : " -> SIGSEGV", to);
	else if (st->expect_err)
		fprintf(to, " -> %s", script_errno_name(st->expect_err));
}

static void print_block(const struct script *s, const struct script_block *b, unsigned depth, FILE *to)
{
	fputs("{\n", to);
	for (size_t i = 0; i < b->nr; i++)
		script_print_stmt(s, b->s[i], depth + 1, to);
	for (unsigned i = 0; i < depth; i++)
		fputc('\t', to);
	fputc('}', to);
}

/* What stands in a process or thread: a block, or one statement after a colon. */
static void print_inside(const struct script *s, const struct script_stmt *st, unsigned depth, FILE *to)
{
	fputs(st->kind == SSTMT_PROC ? "proc " : "thread ", to);
	script_print_expr(s, st->dest, to);
	if (!st->braces && st->body.nr == 1) {
		fputs(": ", to);
		script_print_stmt(s, st->body.s[0], 0, to);
		return;
	}
	fputc(' ', to);
	print_block(s, &st->body, depth, to);
	fputc('\n', to);
}

static void print_expect(const struct script *s, const struct script_stmt *st, FILE *to)
{
	fputs("expect", to);
	if (st->variant)
		fprintf(to, "[%s]", st->variant);
	fputs(st->kind == SSTMT_APPROX ? " approx " : " ", to);
	if (st->kind == SSTMT_EXPECT) {
		script_print_expr(s, st->expr[0], to);
		return;
	}
	print_param(s, st->expr[0], to);
	fputc(' ', to);
	print_param(s, st->expr[1], to);
	fprintf(to, " %" PRId64 "%%", st->expr[2]->i);
}

void script_print_stmt(const struct script *s, const struct script_stmt *st, unsigned depth, FILE *to)
{
	for (unsigned i = 0; i < depth; i++)
		fputc('\t', to);
	switch (st->kind) {
	case SSTMT_CALL:
		print_call(s, st, to);
		break;
	case SSTMT_LET:
		script_print_expr(s, st->dest, to);
		fputs(" = ", to);
		script_print_expr(s, st->expr[0], to);
		break;
	case SSTMT_FOR:
		fprintf(to, "for %s in ", s->names[st->name]);
		print_param(s, st->expr[0], to);
		fputs("..", to);
		print_param(s, st->expr[1], to);
		fputc(' ', to);
		print_block(s, &st->body, depth, to);
		break;
	case SSTMT_IF:
		fputs("if ", to);
		script_print_expr(s, st->expr[0], to);
		fputc(' ', to);
		print_block(s, &st->body, depth, to);
		if (st->other.nr) {
			fputs(" else ", to);
			print_block(s, &st->other, depth, to);
		}
		break;
	case SSTMT_PROC:
	case SSTMT_THREAD:
		print_inside(s, st, depth, to);
		return;
	case SSTMT_MARK:
		fputs("mark", to);
		break;
	case SSTMT_EXPECT:
	case SSTMT_APPROX:
		print_expect(s, st, to);
		break;
	case SSTMT_REPORT:
		fputs("report ", to);
		print_quoted(st->text, to);
		fputc(' ', to);
		print_param(s, st->expr[0], to);
		fputc(' ', to);
		print_quoted(st->unit, to);
		if (st->published) {
			fputc(' ', to);
			print_quoted(st->published, to);
		}
		break;
	}
	fputc('\n', to);
}

static void print_head(const char *word, const char *text, FILE *to)
{
	if (!text)
		return;
	fprintf(to, "%s ", word);
	print_quoted(text, to);
	fputc('\n', to);
}

void script_print(const struct script *s, FILE *to)
{
	print_head("title", s->title, to);
	print_head("source", s->source, to);
	print_head("pending", s->pending, to);
	print_head("machine", s->machine, to);
	print_head("note", s->note, to);
	for (size_t i = 0; i < s->nr_variants; i++) {
		fprintf(to, "variant %s {\n", s->variant[i].name);
		for (size_t j = 0; j < s->variant[i].nr_set; j++)
			fprintf(to, "\tset \"%s\" \"%s\"\n", s->variant[i].set[j].name, s->variant[i].set[j].value);
		fputs("}\n", to);
	}
	for (size_t i = 0; i < s->body.nr; i++)
		script_print_stmt(s, s->body.s[i], 0, to);
}

/* ---- calls ---- */

static void format_addr(uint64_t addr, script_label_fn label, void *arg, FILE *to)
{
	char buf[100];

	if (label) {
		label(arg, addr, buf, sizeof(buf));
		fputs(buf, to);
	} else {
		fprintf(to, "0x%" PRIx64, addr);
	}
}

static void format_param(const struct script_call *c, const struct script_param *pm, script_label_fn label, void *arg, FILE *to)
{
	int64_t v = script_field_get(c, pm->field);

	if (pm->key && v == pm->def)
		return;
	if (pm->kind == SPARAM_RANGE_END) {
		if (c->len == 1) /* one access */
			return;
		fputs("..", to);
		format_addr(c->addr + c->len, label, arg, to);
		return;
	}
	if (pm->kind == SPARAM_RANGE_STEP && (c->len == 1 || v == pm->def))
		return;
	fputs(pm->kind == SPARAM_RANGE_STEP ? " step " : " ", to);
	if (pm->key)
		fprintf(to, "%s=", pm->key);
	if (is_words(pm->kind))
		script_print_words(pm->kind, pm->words, v, to);
	else if (pm->kind == SPARAM_ADDR || pm->kind == SPARAM_RANGE)
		format_addr((uint64_t)v, label, arg, to);
	else if (pm->kind == SPARAM_FILE)
		fprintf(to, "F%" PRId64, v);
	else
		fprintf(to, "%" PRId64, v);
}

void script_format_call(const struct script_call *c, script_label_fn label, void *arg, char *buf, size_t len)
{
	static const char nouns[] = { [SNOUN_NEW_FILE] = 'F', [SNOUN_FILE] = 'F', [SNOUN_NEW_PROC] = 'P', [SNOUN_PROC] = 'P',
				      [SNOUN_NEW_THREAD] = 'T', [SNOUN_NEW_PIN] = 'I', [SNOUN_PIN] = 'I', [SNOUN_SETTING] = 0 };
	const struct script_op_info *info = &script_op_table[c->op];
	FILE *f = len > 1 ? fmemopen(buf, len, "w") : NULL;

	if (len)
		buf[0] = 0;
	if (!f)
		return;
	if (c->proc)
		fprintf(f, "proc P%u: ", c->proc);
	if (c->thread)
		fprintf(f, "thread T%u: ", c->thread);
	fputs(info->word, f);
	if (info->sub)
		fprintf(f, " %s", info->sub);
	if (info->noun == SNOUN_SETTING)
		fprintf(f, " %s %s", c->name, c->text);
	else if (info->noun == SNOUN_NEW_FILE || info->noun == SNOUN_FILE)
		fprintf(f, " F%u", c->file);
	else if (info->noun != SNOUN_NONE)
		fprintf(f, " %c%u", nouns[info->noun], c->target);
	for (unsigned i = 0; i < SCRIPT_MAX_ARGS && info->param[i].kind != SPARAM_NONE; i++)
		format_param(c, &info->param[i], label, arg, f);
	fclose(f);
	buf[len - 1] = 0;
}
