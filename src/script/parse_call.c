/*
 * Calls: what follows a call's word, by the table of ops.c. Positional parameters, then KEY=VALUE in any order, then what is expected.
 */
#include "script/parse_int.h"

#include <signal.h>
#include <string.h>

bool script_missing(struct script_parser *p, const char *what)
{
	char shown[64];

	script_lex_show(&p->t, shown, sizeof(shown));
	return script_fail(p, "%s is missing, found %s", what, shown);
}

bool script_at_end(const struct script_parser *p)
{
	return p->t.tok == TOK_EOL || p->t.tok == TOK_END || script_is(p, '}');
}

bool script_end_of_stmt(struct script_parser *p)
{
	return script_at_end(p) ? !p->rc : script_missing(p, "the end of the statement");
}

/* ---- lists of values ---- */

static void list_words(const struct script_word *w, char *buf, size_t len)
{
	size_t at = 0;

	buf[0] = 0;
	for (; w->name && at < len; w++)
		at += (size_t)snprintf(buf + at, len - at, "%s%s", at ? ", " : "", w->name);
}

/* One item of FLAGS or ENUM. */
static bool parse_word(struct script_parser *p, const struct script_word *w, int64_t *ret)
{
	char list[480], shown[64];
	uint32_t v;

	if (p->t.tok == TOK_INT && p->t.i <= INT32_MAX) {
		*ret = (int64_t)p->t.i;
	} else if (p->t.tok == TOK_NAME && script_word_find(w, p->t.at, p->t.len, &v)) {
		*ret = v;
	} else {
		script_lex_show(&p->t, shown, sizeof(shown));
		list_words(w, list, sizeof(list));
		return script_fail(p, "%s is none of: %s", shown, list);
	}
	script_lex_next(p);
	return !p->rc;
}

static bool parse_flags(struct script_parser *p, const struct script_word *w, int64_t *ret)
{
	int64_t one = 0;

	*ret = 0;
	for (;;) {
		if (!parse_word(p, w, &one))
			return false;
		*ret |= one;
		if (!script_is(p, ','))
			return true;
		script_lex_next(p);
	}
}

static bool parse_prot(struct script_parser *p, int64_t *ret)
{
	static const char letters[] = "rwx";
	const char *l;

	*ret = 0;
	if (p->t.tok == TOK_INT && p->t.i <= INT32_MAX) {
		*ret = (int64_t)p->t.i;
	} else if (p->t.tok == TOK_NAME) {
		for (size_t i = 0; i < p->t.len && !script_is_word(p, "none"); i++) {
			l = strchr(letters, p->t.at[i]);
			if (!l)
				return script_fail(p, "rights are none, or letters of r, w and x, or a number");
			*ret |= 1 << (l - letters);
		}
	} else {
		return script_missing(p, "what is allowed (none, r, rw, rx, rwx, ...)");
	}
	script_lex_next(p);
	while (script_is(p, '+')) {
		script_lex_next(p);
		if (script_is_word(p, "growsdown"))
			*ret |= 0x01000000;
		else if (script_is_word(p, "growsup"))
			*ret |= 0x02000000;
		else
			return script_missing(p, "growsdown or growsup");
		script_lex_next(p);
	}
	return !p->rc;
}

static bool parse_nodes(struct script_parser *p, int64_t *ret)
{
	uint64_t mask = 0;

	for (;;) {
		if (p->t.tok != TOK_INT || p->t.i > 63)
			return script_missing(p, "a node number from 0 to 63");
		mask |= 1ULL << p->t.i;
		script_lex_next(p);
		if (!script_is(p, ','))
			break;
		script_lex_next(p);
	}
	*ret = (int64_t)mask;
	return !p->rc;
}

/* ---- calls ---- */

static struct script_expr *parse_list(struct script_parser *p, const struct script_param *pm)
{
	bool (*list)(struct script_parser *, int64_t *) = pm->kind == SPARAM_PROT ? parse_prot : parse_nodes;
	uint32_t line = p->t.line, col = p->t.col;
	struct script_expr *e;
	int64_t v = 0;
	bool ok;

	if (pm->kind == SPARAM_FLAGS)
		ok = parse_flags(p, pm->words, &v);
	else if (pm->kind == SPARAM_ENUM)
		ok = parse_word(p, pm->words, &v);
	else
		ok = list(p, &v);
	e = ok ? script_expr_int(p, v) : NULL;
	if (e) {
		e->line = line;
		e->col = col;
	}
	return e;
}

/* A positional parameter, or what follows KEY=. */
static bool parse_value(struct script_parser *p, struct script_stmt *st, unsigned i)
{
	const struct script_param *pm = &script_op_table[st->op].param[i];

	switch (pm->kind) {
	case SPARAM_INT:
	case SPARAM_ADDR:
		st->arg[i] = script_parse_sum(p);
		break;
	case SPARAM_RANGE:
		st->arg[i] = script_parse_sum(p);
		if (p->t.tok == TOK_RANGE) {
			script_lex_next(p);
			st->arg[i + 1] = script_parse_sum(p);
			if (script_is_word(p, "step")) {
				script_lex_next(p);
				st->arg[i + 2] = script_parse_sum(p);
			}
		} else if (st->op == SOP_FILL) {
			return script_missing(p, "'..' and the end");
		}
		break;
	case SPARAM_FILE:
		st->arg[i] = script_parse_name(p, "a file's name");
		break;
	default:
		st->arg[i] = parse_list(p, pm);
		break;
	}
	return !p->rc;
}

static bool is_range_part(const struct script_param *pm)
{
	return pm->kind == SPARAM_RANGE_END || pm->kind == SPARAM_RANGE_STEP;
}

static bool parse_params(struct script_parser *p, struct script_stmt *st)
{
	const struct script_op_info *info = &script_op_table[st->op];
	const struct script_param *pm = info->param;
	unsigned i, given = 0;
	uint32_t v;

	for (i = 0; i < SCRIPT_MAX_ARGS && pm[i].kind != SPARAM_NONE && !pm[i].key; i++) {
		if (is_range_part(&pm[i]))
			continue;
		if (pm[i].optional && !(p->t.tok == TOK_NAME && script_word_find(pm[i].words, p->t.at, p->t.len, &v)))
			continue;
		if (given++ && script_is(p, ','))
			script_lex_next(p);
		if (script_at_end(p) || p->t.tok == TOK_ARROW)
			return script_fail(p, "a parameter is missing: %s", info->usage);
		if (!parse_value(p, st, i))
			return false;
	}
	while (p->t.tok == TOK_NAME) {
		for (i = 0; i < SCRIPT_MAX_ARGS && pm[i].kind != SPARAM_NONE; i++)
			if (pm[i].key && script_is_word(p, pm[i].key))
				break;
		if (i == SCRIPT_MAX_ARGS || pm[i].kind == SPARAM_NONE)
			break;
		if (st->arg[i])
			return script_fail(p, "%s= is given twice", pm[i].key);
		script_lex_next(p);
		if (!script_is(p, '='))
			return script_missing(p, "'='");
		script_lex_next(p);
		if (!parse_value(p, st, i))
			return false;
	}
	return script_at_end(p) || p->t.tok == TOK_ARROW ? !p->rc : script_fail(p, "too much: %s", info->usage);
}

/* `-> EINVAL`, `-> SIGSEGV`, `-> any` */
static bool parse_expected(struct script_parser *p, struct script_stmt *st)
{
	if (p->t.tok != TOK_ARROW)
		return !p->rc;
	script_lex_next(p);
	if (script_is_word(p, "any"))
		st->any_err = true;
	else if (script_is_word(p, "SIGSEGV"))
		st->expect_sig = SIGSEGV;
	else if (script_is_word(p, "SIGBUS"))
		st->expect_sig = SIGBUS;
	else if (p->t.tok == TOK_NAME)
		st->expect_err = script_errno_find(p->t.at, p->t.len);
	if (!st->any_err && !st->expect_sig && !st->expect_err)
		return script_missing(p, "an error (EINVAL, ENOMEM, ...), SIGSEGV, SIGBUS or any");
	script_lex_next(p);
	return !p->rc;
}

/* The op whose word is at hand: NR_SCRIPT_OPS when it is none. */
unsigned script_op_at(const struct script_parser *p)
{
	unsigned op = 0;

	while (op < NR_SCRIPT_OPS && !script_is_word(p, script_op_table[op].word))
		op++;
	return op;
}

/* Goes past the word, and past its second one. */
bool script_parse_op(struct script_parser *p, enum script_op *ret)
{
	unsigned op = script_op_at(p);
	const char *word = script_op_table[op].word;
	char list[200];
	size_t at = 0;

	*ret = (enum script_op)op;
	script_lex_next(p);
	if (!script_op_table[op].sub)
		return !p->rc;
	list[0] = 0;
	for (; op < NR_SCRIPT_OPS; op++) {
		if (strcmp(script_op_table[op].word, word))
			continue;
		if (script_is_word(p, script_op_table[op].sub)) {
			*ret = (enum script_op)op;
			script_lex_next(p);
			return !p->rc;
		}
		if (at < sizeof(list))
			at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", at ? ", " : "", script_op_table[op].sub);
	}
	return script_fail(p, "after %s comes one of: %s", word, list);
}

bool script_parse_setting(struct script_parser *p, char **name, char **value)
{
	script_lex_word(p, "a setting's name");
	*name = script_text(p);
	script_lex_word(p, "the setting's value");
	*value = script_text(p);
	script_lex_next(p);
	return !p->rc;
}

bool script_may_bind(struct script_parser *p)
{
	if (p->t.tok == TOK_NAME && script_name_reserved(p->t.at, p->t.len))
		return script_fail(p, "'%.*s' is a word of the language, not a name to give", (int)p->t.len, p->t.at);
	return !p->rc;
}

bool script_parse_noun(struct script_parser *p, struct script_stmt *st)
{
	static const char *const what[] = {
		[SNOUN_NEW_FILE] = "a name for the file", [SNOUN_NEW_PROC] = "a name for the process",
		[SNOUN_NEW_THREAD] = "a name for the thread", [SNOUN_NEW_PIN] = "a name for the pin", [SNOUN_FILE] = "a file's name",
		[SNOUN_PROC] = "a process's name", [SNOUN_PIN] = "a pin's name",
	};
	enum script_noun noun = script_op_table[st->op].noun;

	if (noun == SNOUN_NONE)
		return !p->rc;
	if (noun <= SNOUN_NEW_PIN && !script_may_bind(p))
		return false;
	st->dest = script_parse_name(p, what[noun]);
	return !p->rc;
}

bool script_parse_rest(struct script_parser *p, struct script_stmt *st)
{
	return parse_params(p, st) && parse_expected(p, st) && script_end_of_stmt(p);
}
