/*
 * Expressions: || over && over comparisons over + - over * / % over - ! and what is in parentheses. Each level is a function; depth is
 * bounded, so that no text makes the parser, or those who walk the tree later, run out of stack.
 */
#include "script/parse_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void script_expr_free(struct script_expr *e)
{
	if (!e)
		return;
	for (unsigned i = 0; i < SCRIPT_MAX_ARGS; i++)
		script_expr_free(e->a[i]);
	free(e->text);
	free(e);
}

static void *no_memory(struct script_parser *p)
{
	if (!p->rc) {
		script_fail(p, "out of memory");
		p->rc = -ENOMEM;
	}
	return NULL;
}

static struct script_expr *expr_new(struct script_parser *p, enum script_expr_kind kind)
{
	struct script_expr *e = p->rc ? NULL : calloc(1, sizeof(*e));

	if (!e)
		return no_memory(p);
	e->kind = kind;
	e->line = p->t.line;
	e->col = p->t.col;
	return e;
}

struct script_expr *script_expr_int(struct script_parser *p, int64_t v)
{
	struct script_expr *e = expr_new(p, SEXPR_INT);

	if (e)
		e->i = v;
	return e;
}

/* Frees e when it is not good. */
static struct script_expr *checked(struct script_parser *p, struct script_expr *e)
{
	if (p->rc) {
		script_expr_free(e);
		return NULL;
	}
	return e;
}

bool script_name_reserved(const char *name, size_t len)
{
	static const char *const words[] = {
		"title", "source", "pending", "note", "machine", "variant", "for", "in", "if", "else", "proc", "mark", "expect", "approx", "report",
		"result", "errno", "value", "count", "signal", "ARENA", "main", "any",
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i]) == len && !memcmp(words[i], name, len))
			return true;
	for (unsigned op = 0; op < NR_SCRIPT_OPS; op++)
		if (strlen(script_op_table[op].word) == len && !memcmp(script_op_table[op].word, name, len))
			return true;
	return memchr(name, '.', len) != NULL;
}

bool script_name(struct script_parser *p, const char *at, size_t len, uint32_t *ret)
{
	struct script *s = p->s;
	char **names;

	for (uint32_t i = 0; i < s->nr_names; i++)
		if (strlen(s->names[i]) == len && !memcmp(s->names[i], at, len)) {
			*ret = i;
			return true;
		}
	if (s->nr_names == SCRIPT_MAX_NAMES)
		return script_fail(p, "too many names, at most %d", SCRIPT_MAX_NAMES);
	/* Grows at powers of two. */
	if (!(s->nr_names & (s->nr_names - 1))) {
		names = realloc(s->names, (s->nr_names ? 2 * (size_t)s->nr_names : 1) * sizeof(*names));
		if (!names)
			return no_memory(p) != NULL;
		s->names = names;
	}
	s->names[s->nr_names] = strndup(at, len);
	if (!s->names[s->nr_names])
		return no_memory(p) != NULL;
	*ret = s->nr_names++;
	return true;
}

/* The token at hand must be this character; goes past it. */
static bool take(struct script_parser *p, char c, const char *where)
{
	char shown[64];

	if (script_is(p, c)) {
		script_lex_next(p);
		return true;
	}
	script_lex_show(&p->t, shown, sizeof(shown));
	return script_fail(p, "'%c' is missing %s, found %s", c, where, shown);
}

/* NAME or NAME[INDEX], after the name itself. */
static struct script_expr *index_of(struct script_parser *p, struct script_expr *e)
{
	if (script_is(p, '[') && !p->t.spaced) {
		script_lex_next(p);
		e->a[0] = script_parse_expr(p);
		e->nr = 1;
		take(p, ']', "after the index");
	}
	return checked(p, e);
}

struct script_expr *script_parse_name(struct script_parser *p, const char *what)
{
	struct script_expr *e;
	char shown[64];

	if (p->t.tok != TOK_NAME || memchr(p->t.at, '.', p->t.len)) {
		script_lex_show(&p->t, shown, sizeof(shown));
		script_fail(p, "%s is missing, found %s", what, shown);
		return NULL;
	}
	e = expr_new(p, SEXPR_NAME);
	if (e)
		script_name(p, p->t.at, p->t.len, &e->name);
	script_lex_next(p);
	return checked(p, e) ? index_of(p, e) : NULL;
}

/* NAME.NAME, NAME(...), NAME.NAME(...): read from the executor. */
static struct script_expr *counter(struct script_parser *p, const struct script_lex *name)
{
	struct script_expr *e = expr_new(p, SEXPR_COUNTER);

	if (!e)
		return NULL;
	e->line = name->line;
	e->col = name->col;
	e->text = strndup(name->at, name->len);
	if (!e->text)
		no_memory(p);
	if (script_is(p, '(') && !p->t.spaced) {
		script_lex_next(p);
		while (!p->rc && !script_is(p, ')')) {
			if (e->nr == SCRIPT_MAX_ARGS) {
				script_fail(p, "too many arguments, at most %d", SCRIPT_MAX_ARGS);
				break;
			}
			e->a[e->nr++] = script_parse_expr(p);
			if (script_is(p, ','))
				script_lex_next(p);
			else if (!script_is(p, ')'))
				take(p, ')', "after the arguments");
		}
		take(p, ')', "after the arguments");
	}
	return checked(p, e);
}

static struct script_expr *primary(struct script_parser *p)
{
	struct script_lex name = p->t;
	struct script_expr *e;
	char shown[64];

	if (p->t.tok == TOK_INT) {
		e = script_expr_int(p, (int64_t)p->t.i);
		if (e)
			e->unit = p->t.unit;
		script_lex_next(p);
		return checked(p, e);
	}
	if (script_is(p, '(')) {
		script_lex_next(p);
		e = script_parse_expr(p);
		take(p, ')', "after the expression");
		return checked(p, e);
	}
	if (p->t.tok == TOK_NAME) {
		script_lex_next(p);
		if (memchr(name.at, '.', name.len) || (script_is(p, '(') && !p->t.spaced))
			return counter(p, &name);
		e = expr_new(p, SEXPR_NAME);
		if (!e)
			return NULL;
		e->line = name.line;
		e->col = name.col;
		script_name(p, name.at, name.len, &e->name);
		return checked(p, e) ? index_of(p, e) : NULL;
	}
	script_lex_show(&p->t, shown, sizeof(shown));
	script_fail(p, "a number, a name or '(' is missing, found %s", shown);
	return NULL;
}

static struct script_expr *unary(struct script_parser *p)
{
	struct script_expr *e;

	if (!script_is(p, '-') && !script_is(p, '!'))
		return primary(p);
	if (++p->expr_depth > SCRIPT_MAX_EXPR_DEPTH) {
		script_fail(p, "the expression is too deep, at most %d", SCRIPT_MAX_EXPR_DEPTH);
		p->expr_depth--;
		return NULL;
	}
	e = expr_new(p, SEXPR_UNARY);
	if (e) {
		e->op = p->t.c;
		e->nr = 1;
		script_lex_next(p);
		e->a[0] = unary(p);
	}
	p->expr_depth--;
	return checked(p, e);
}

/* Left op right, where left is there already and the operator at hand. */
static struct script_expr *binary(struct script_parser *p, struct script_expr *left, char op,
				  struct script_expr *(*operand)(struct script_parser *))
{
	struct script_expr *e = expr_new(p, SEXPR_BINARY);

	if (!e) {
		script_expr_free(left);
		return NULL;
	}
	e->op = op;
	e->nr = 2;
	e->a[0] = left;
	script_lex_next(p);
	e->a[1] = operand(p);
	return checked(p, e);
}

/* A chain of operators leans to the left, so its length is depth too. */
static bool too_long(struct script_parser *p, unsigned n)
{
	if (n < SCRIPT_MAX_EXPR_DEPTH)
		return false;
	script_fail(p, "the expression is too long, at most %d operators of one kind in a row", SCRIPT_MAX_EXPR_DEPTH);
	return true;
}

static struct script_expr *product(struct script_parser *p)
{
	struct script_expr *e = unary(p);

	for (unsigned n = 0; e && (script_is(p, '*') || script_is(p, '/') || script_is(p, '%')) && !too_long(p, n); n++)
		e = binary(p, e, p->t.c, unary);
	return checked(p, e);
}

struct script_expr *script_parse_sum(struct script_parser *p)
{
	struct script_expr *e = product(p);

	for (unsigned n = 0; e && (script_is(p, '+') || script_is(p, '-')) && !too_long(p, n); n++)
		e = binary(p, e, p->t.c, product);
	return checked(p, e);
}

static char comparison(const struct script_parser *p)
{
	switch (p->t.tok) {
	case TOK_LE: return 'l';
	case TOK_GE: return 'g';
	case TOK_EQ: return '=';
	case TOK_NE: return '!';
	default: return script_is(p, '<') || script_is(p, '>') ? p->t.c : 0;
	}
}

static struct script_expr *compared(struct script_parser *p)
{
	struct script_expr *e = script_parse_sum(p);
	char op = comparison(p);

	if (e && op)
		e = binary(p, e, op, script_parse_sum);
	return checked(p, e);
}

static struct script_expr *all_of(struct script_parser *p)
{
	struct script_expr *e = compared(p);

	for (unsigned n = 0; e && p->t.tok == TOK_AND && !too_long(p, n); n++)
		e = binary(p, e, '&', compared);
	return checked(p, e);
}

struct script_expr *script_parse_expr(struct script_parser *p)
{
	struct script_expr *e = NULL;

	if (++p->expr_depth > SCRIPT_MAX_EXPR_DEPTH) {
		script_fail(p, "the expression is too deep, at most %d", SCRIPT_MAX_EXPR_DEPTH);
	} else {
		e = all_of(p);
		for (unsigned n = 0; e && p->t.tok == TOK_OR && !too_long(p, n); n++)
			e = binary(p, e, '|', all_of);
	}
	p->expr_depth--;
	return checked(p, e);
}
