/*
 * Statements, blocks and the head of a script. One pass, one token at hand; the first error ends it. Everything that was built is in the
 * tree at once, so an error needs no undoing: the tree is freed.
 */
#include "script/parse_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool parse_block(struct script_parser *p, struct script_block *b);
static bool parse_stmt(struct script_parser *p, struct script_block *b);

/* ---- tokens ---- */

static void skip_lines(struct script_parser *p)
{
	while (p->t.tok == TOK_EOL)
		script_lex_next(p);
}

static bool open_brace(struct script_parser *p, const char *after)
{
	char what[64];

	if (script_is(p, '{')) {
		script_lex_next(p);
		return !p->rc;
	}
	snprintf(what, sizeof(what), "'{' after %s", after);
	return script_missing(p, what);
}

/* ---- building ---- */

static bool no_memory(struct script_parser *p)
{
	if (!p->rc) {
		script_fail(p, "out of memory");
		p->rc = -ENOMEM;
	}
	return false;
}

static struct script_stmt *stmt_new(struct script_parser *p, struct script_block *b, enum script_stmt_kind kind)
{
	struct script_stmt *st, **s;

	if (p->s->nr_stmts == SCRIPT_MAX_STMTS) {
		script_fail(p, "too many statements, at most %d", SCRIPT_MAX_STMTS);
		return NULL;
	}
	if (b->nr == b->cap) {
		s = realloc(b->s, (b->cap ? 2 * b->cap : 4) * sizeof(*s));
		if (!s) {
			no_memory(p);
			return NULL;
		}
		b->s = s;
		b->cap = b->cap ? 2 * b->cap : 4;
	}
	st = calloc(1, sizeof(*st));
	if (!st) {
		no_memory(p);
		return NULL;
	}
	st->kind = kind;
	st->line = p->t.line;
	st->col = p->t.col;
	b->s[b->nr++] = st;
	p->s->nr_stmts++;
	return st;
}

/* A call by its word: also `thread T: ...`, which is a block. */
static bool parse_call_stmt(struct script_parser *p, struct script_block *b)
{
	struct script_stmt *st = stmt_new(p, b, SSTMT_CALL);

	if (!st)
		return false;
	if (script_is_word(p, "set") || script_is_word(p, "free_lists")) {
		st->op = script_is_word(p, "set") ? SOP_SET : SOP_FREE_LISTS;
		return script_parse_setting(p, &st->text, &st->unit) && script_end_of_stmt(p);
	}
	if (!script_parse_op(p, &st->op))
		return false;
	if (st->op != SOP_THREAD)
		return script_parse_noun(p, st) && script_parse_rest(p, st);
	st->dest = script_parse_name(p, "a thread's name");
	if (script_is(p, ':') || script_is(p, '{')) {
		st->kind = SSTMT_THREAD;
		st->braces = script_is(p, '{');
		return parse_block(p, &st->body);
	}
	if (!p->rc && script_name_reserved(p->s->names[st->dest->name], strlen(p->s->names[st->dest->name])))
		return script_fail(p, "'%s' is a word of the language, not a name to give", p->s->names[st->dest->name]);
	return script_parse_rest(p, st);
}

/* ---- other statements ---- */

/* NAME = ... */
static bool parse_binding(struct script_parser *p, struct script_block *b)
{
	struct script_stmt *st = stmt_new(p, b, SSTMT_LET);

	if (!st || !script_may_bind(p))
		return false;
	st->dest = script_parse_name(p, "a name");
	if (p->rc)
		return false;
	if (!script_is(p, '='))
		return script_missing(p, "'='");
	script_lex_next(p);
	if (script_op_at(p) < NR_SCRIPT_OPS) {
		const char *word = script_op_table[script_op_at(p)].word;

		st->kind = SSTMT_CALL;
		if (script_op_table[script_op_at(p)].gives == SGIVES_NOTHING)
			return script_fail(p, "%s gives nothing that a name could stand for", word);
		return script_parse_op(p, &st->op) && script_parse_rest(p, st);
	}
	st->expr[0] = script_parse_expr(p);
	return script_end_of_stmt(p);
}

static bool parse_for(struct script_parser *p, struct script_block *b)
{
	struct script_stmt *st = stmt_new(p, b, SSTMT_FOR);

	if (!st)
		return false;
	script_lex_next(p);
	if (p->t.tok != TOK_NAME || !script_may_bind(p) || !script_name(p, p->t.at, p->t.len, &st->name))
		return script_missing(p, "the loop's name");
	script_lex_next(p);
	if (!script_is_word(p, "in"))
		return script_missing(p, "'in'");
	script_lex_next(p);
	st->expr[0] = script_parse_sum(p);
	if (p->t.tok != TOK_RANGE)
		return script_missing(p, "'..'");
	script_lex_next(p);
	st->expr[1] = script_parse_sum(p);
	return !p->rc && parse_block(p, &st->body);
}

static bool parse_if(struct script_parser *p, struct script_block *b)
{
	struct script_stmt *st = stmt_new(p, b, SSTMT_IF);

	if (!st)
		return false;
	script_lex_next(p);
	st->expr[0] = script_parse_expr(p);
	if (p->rc || !parse_block(p, &st->body))
		return false;
	if (!script_is_word(p, "else"))
		return !p->rc;
	script_lex_next(p);
	return parse_block(p, &st->other);
}

static bool parse_proc(struct script_parser *p, struct script_block *b)
{
	struct script_stmt *st = stmt_new(p, b, SSTMT_PROC);

	if (!st)
		return false;
	script_lex_next(p);
	st->dest = script_parse_name(p, "a process's name");
	st->braces = script_is(p, '{');
	return !p->rc && parse_block(p, &st->body);
}

static bool parse_variant_name(struct script_parser *p, struct script_stmt *st)
{
	if (!script_is(p, '[') || p->t.spaced)
		return !p->rc;
	script_lex_next(p);
	if (p->t.tok != TOK_NAME)
		return script_missing(p, "a variant's name");
	for (size_t i = 0; i < p->s->nr_variants; i++)
		if (script_is_word(p, p->s->variant[i].name))
			st->variant = script_text(p);
	if (!st->variant)
		return script_fail(p, "there is no variant '%.*s' above", (int)p->t.len, p->t.at);
	script_lex_next(p);
	if (!script_is(p, ']'))
		return script_missing(p, "']'");
	script_lex_next(p);
	return !p->rc;
}

static bool parse_tolerance(struct script_parser *p, struct script_stmt *st)
{
	if (p->t.tok != TOK_INT)
		return script_missing(p, "a tolerance (5%)");
	st->expr[2] = script_expr_int(p, (int64_t)p->t.i);
	script_lex_next(p);
	if (!script_is(p, '%'))
		return script_missing(p, "'%' after the tolerance");
	script_lex_next(p);
	return script_end_of_stmt(p);
}

static bool parse_expect(struct script_parser *p, struct script_block *b)
{
	struct script_stmt *st = stmt_new(p, b, SSTMT_EXPECT);

	if (!st)
		return false;
	script_lex_next(p);
	if (!parse_variant_name(p, st))
		return false;
	if (script_is_word(p, "approx")) {
		st->kind = SSTMT_APPROX;
		script_lex_next(p);
		st->expr[0] = script_parse_sum(p);
		st->expr[1] = script_parse_sum(p);
		return !p->rc && parse_tolerance(p, st);
	}
	st->expr[0] = script_parse_expr(p);
	if (p->t.tok != TOK_APPROX)
		return script_end_of_stmt(p);
	st->kind = SSTMT_APPROX;
	script_lex_next(p);
	st->expr[1] = script_parse_sum(p);
	return !p->rc && parse_tolerance(p, st);
}

static bool parse_report(struct script_parser *p, struct script_block *b)
{
	struct script_stmt *st = stmt_new(p, b, SSTMT_REPORT);

	if (!st)
		return false;
	script_lex_next(p);
	if (p->t.tok != TOK_NAME && p->t.tok != TOK_STRING)
		return script_missing(p, "a name for what is reported");
	st->text = script_text(p);
	script_lex_next(p);
	st->expr[0] = script_parse_sum(p);
	if (p->t.tok != TOK_NAME && p->t.tok != TOK_STRING)
		return script_missing(p, "the unit");
	st->unit = script_text(p);
	script_lex_next(p);
	if (p->t.tok == TOK_STRING) {
		st->published = script_text(p);
		script_lex_next(p);
	}
	return script_end_of_stmt(p);
}

static bool parse_mark(struct script_parser *p, struct script_block *b)
{
	if (!stmt_new(p, b, SSTMT_MARK))
		return false;
	script_lex_next(p);
	return script_end_of_stmt(p);
}

static const struct {
	const char *word;
	bool (*parse)(struct script_parser *, struct script_block *);
} statements[] = {
	{ "for", parse_for }, { "if", parse_if }, { "proc", parse_proc }, { "mark", parse_mark }, { "expect", parse_expect },
	{ "report", parse_report },
};

static bool unknown(struct script_parser *p)
{
	char list[700], shown[64];
	size_t at = 0;

	for (unsigned op = 0; op < NR_SCRIPT_OPS && at < sizeof(list); op++)
		if (!op || strcmp(script_op_table[op].word, script_op_table[op - 1].word))
			at += (size_t)snprintf(list + at, sizeof(list) - at, "%s, ", script_op_table[op].word);
	for (size_t i = 0; i < ARRAY_SIZE(statements) && at < sizeof(list); i++)
		at += (size_t)snprintf(list + at, sizeof(list) - at, "%s, ", statements[i].word);
	script_lex_show(&p->t, shown, sizeof(shown));
	return script_fail(p, "%s begins no statement: NAME =, %sand at the head title, source, pending, note, machine, variant", shown, list);
}

static bool parse_stmt(struct script_parser *p, struct script_block *b)
{
	struct script_lex after;

	for (size_t i = 0; i < ARRAY_SIZE(statements); i++)
		if (script_is_word(p, statements[i].word))
			return statements[i].parse(p, b);
	if (script_op_at(p) < NR_SCRIPT_OPS)
		return parse_call_stmt(p, b);
	if (p->t.tok != TOK_NAME)
		return unknown(p);
	/* A name that is not followed by what a binding needs is more likely a call that does not exist. */
	after = p->t;
	while (after.p < after.end && (*after.p == ' ' || *after.p == '\t'))
		after.p++;
	if (after.p == after.end || (*after.p != '=' && *after.p != '['))
		return unknown(p);
	return parse_binding(p, b);
}

/* ---- blocks and the head ---- */

static bool parse_block(struct script_parser *p, struct script_block *b)
{
	bool ok = true;

	if (++p->depth > SCRIPT_MAX_DEPTH)
		return script_fail(p, "blocks are too deep, at most %d", SCRIPT_MAX_DEPTH);
	if (script_is(p, ':')) {
		script_lex_next(p);
		ok = parse_stmt(p, b);
		p->depth--;
		return ok && !p->rc;
	}
	if (!open_brace(p, "this"))
		return false;
	for (skip_lines(p); ok && !p->rc && !script_is(p, '}'); skip_lines(p)) {
		if (p->t.tok == TOK_END)
			return script_missing(p, "'}'");
		ok = parse_stmt(p, b);
	}
	script_lex_next(p);
	p->depth--;
	return ok && !p->rc;
}

static bool parse_variant(struct script_parser *p)
{
	struct script_variant *v = realloc(p->s->variant, (p->s->nr_variants + 1) * sizeof(*v));
	struct script_setting *set;

	if (!v)
		return no_memory(p);
	p->s->variant = v;
	if (p->s->nr_variants == SCRIPT_MAX_VARIANTS)
		return script_fail(p, "too many variants, at most %d", SCRIPT_MAX_VARIANTS);
	v += p->s->nr_variants;
	*v = (struct script_variant){ .line = p->t.line };
	script_lex_next(p);
	if (p->t.tok != TOK_NAME)
		return script_missing(p, "a variant's name");
	for (size_t i = 0; i < p->s->nr_variants; i++)
		if (script_is_word(p, p->s->variant[i].name))
			return script_fail(p, "there is a variant '%s' already", p->s->variant[i].name);
	v->name = script_text(p);
	p->s->nr_variants++;
	script_lex_next(p);
	if (!open_brace(p, "the variant's name"))
		return false;
	for (skip_lines(p); !script_is(p, '}'); skip_lines(p)) {
		if (!script_is_word(p, "set"))
			return script_missing(p, "set or '}'");
		set = v->nr_set < 64 ? realloc(v->set, (v->nr_set + 1) * sizeof(*set)) : NULL;
		if (!set)
			return v->nr_set < 64 ? no_memory(p) : script_fail(p, "too many settings in a variant, at most 64");
		v->set = set;
		set += v->nr_set++;
		*set = (struct script_setting){ .line = p->t.line, .col = p->t.col };
		if (!script_parse_setting(p, &set->name, &set->value) || !script_end_of_stmt(p))
			return false;
	}
	script_lex_next(p);
	return !p->rc;
}

/* title "...", source "...", pending "...", note "...", machine NAME. false: none of these. */
static bool parse_head(struct script_parser *p, bool *ok)
{
	struct {
		const char *word;
		char **to;
	} heads[] = { { "title", &p->s->title }, { "source", &p->s->source }, { "pending", &p->s->pending }, { "machine", &p->s->machine },
		    { "note", &p->s->note } };

	if (script_is_word(p, "variant")) {
		*ok = parse_variant(p) && script_end_of_stmt(p);
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		if (!script_is_word(p, heads[i].word))
			continue;
		if (*heads[i].to) {
			*ok = script_fail(p, "%s is given twice", heads[i].word);
			return true;
		}
		script_lex_word(p, heads[i].word);
		*heads[i].to = script_text(p);
		script_lex_next(p);
		*ok = script_end_of_stmt(p);
		return true;
	}
	return false;
}

int script_parse(const char *file, const char *text, size_t len, struct script **ret, char *err, size_t errlen)
{
	struct script_parser p = { .err = err, .errlen = errlen };
	bool ok = true;

	*ret = NULL;
	p.s = calloc(1, sizeof(*p.s));
	if (p.s)
		p.s->file = strdup(file);
	if (!p.s || !p.s->file) {
		snprintf(err, errlen, "%s: out of memory", file);
		script_free(p.s);
		return -ENOMEM;
	}
	if (len > SCRIPT_MAX_BYTES)
		(void)script_fail_at(&p, 1, 1, "the script is too long, at most %d bytes", SCRIPT_MAX_BYTES);
	script_lex_begin(&p, text, p.rc ? 0 : len);
	for (skip_lines(&p); ok && !p.rc && p.t.tok != TOK_END; skip_lines(&p))
		if (!parse_head(&p, &ok))
			ok = parse_stmt(&p, &p.s->body) && (script_is(&p, '}') ? script_missing(&p, "a statement") : script_end_of_stmt(&p));
	if (p.rc) {
		script_free(p.s);
		return p.rc;
	}
	*ret = p.s;
	return 0;
}
