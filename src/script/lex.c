/* Text into tokens. Looks at no byte outside of the text, copies nothing. */
#include "script/parse_int.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool script_fail_at(struct script_parser *p, uint32_t line, uint32_t col, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (p->rc)
		return false;
	p->rc = -EINVAL;
	n = snprintf(p->err, p->errlen, "%s:%u:%u: ", p->s->file, line, col);
	va_start(ap, fmt);
	if (n >= 0 && (size_t)n < p->errlen)
		vsnprintf(p->err + n, p->errlen - (size_t)n, fmt, ap);
	va_end(ap);
	p->t.tok = TOK_END;
	return false;
}

bool script_fail(struct script_parser *p, const char *fmt, ...)
{
	char what[600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return script_fail_at(p, p->t.line, p->t.col, "%s", what);
}

static bool is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
	return is_name_start(c) || is_digit(c);
}

static bool is_printable(char c)
{
	return c >= ' ' && c <= '~';
}

void script_lex_begin(struct script_parser *p, const char *text, size_t len)
{
	p->t = (struct script_lex){ .p = text, .end = text + len, .line_start = text, .line_no = 1 };
	script_lex_next(p);
}

/* Past blanks and comments, to where the next token begins. */
static void skip_blanks(struct script_lex *t)
{
	t->spaced = t->p == t->line_start;
	while (t->p < t->end) {
		if (*t->p == ' ' || *t->p == '\t' || *t->p == '\r')
			t->p++;
		else if (*t->p == '#')
			while (t->p < t->end && *t->p != '\n')
				t->p++;
		else
			break;
		t->spaced = true;
	}
	t->line = t->line_no;
	t->col = (uint32_t)(t->p - t->line_start) + 1;
	t->at = t->p;
	t->len = 0;
}

static int digit(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
}

/* Powers of 1024, and pages. */
static unsigned unit_shift(char c)
{
	static const char units[] = "KMGT";
	const char *u = c ? strchr(units, c) : NULL;

	return c == 'p' ? 12 : u ? 10 * (unsigned)(u - units + 1) : 0;
}

static void lex_int(struct script_parser *p)
{
	struct script_lex *t = &p->t;
	unsigned base = 10, shift;
	const char *first;

	if (t->end - t->p > 2 && t->p[0] == '0' && (t->p[1] == 'x' || t->p[1] == 'X')) {
		base = 16;
		t->unit = 'x';
		t->p += 2;
	}
	first = t->p;
	for (; t->p < t->end && digit(*t->p) < (int)base; t->p++) {
		if (__builtin_mul_overflow(t->i, base, &t->i) || __builtin_add_overflow(t->i, (uint64_t)digit(*t->p), &t->i)) {
			script_fail(p, "the number is too large, at most 18446744073709551615");
			return;
		}
	}
	shift = t->p < t->end && base == 10 ? unit_shift(*t->p) : 0;
	if (shift) {
		t->unit = (uint8_t)*t->p++;
		if (t->i > (UINT64_MAX >> shift) >> 1) {
			script_fail(p, "the number is too large, at most 9223372036854775807");
			return;
		}
		t->i <<= shift;
	}
	if (t->p == first || (t->p < t->end && is_name(*t->p)))
		script_fail(p, "a number is written 4096, 0x1000, or with K, M, G, T (powers of 1024) or p (pages) behind it");
}

static void lex_name(struct script_parser *p)
{
	struct script_lex *t = &p->t;

	while (t->p < t->end && (is_name(*t->p) || (*t->p == '.' && t->end - t->p > 1 && is_name_start(t->p[1]))))
		t->p++;
	t->len = (size_t)(t->p - t->at);
	if (t->len > SCRIPT_MAX_NAME)
		script_fail(p, "the name is too long, at most %d characters", SCRIPT_MAX_NAME);
}

static void lex_string(struct script_parser *p)
{
	struct script_lex *t = &p->t;

	t->at = ++t->p;
	while (t->p < t->end && *t->p != '"' && is_printable(*t->p))
		t->p++;
	t->len = (size_t)(t->p - t->at);
	if (t->p == t->end || *t->p != '"')
		script_fail(p, "the string does not end: printable characters, then \" on the same line");
	else if (t->len > SCRIPT_MAX_TEXT)
		script_fail(p, "the string is too long, at most %d characters", SCRIPT_MAX_TEXT);
	else
		t->p++;
}

static enum script_token two_chars(char a, char b)
{
	static const struct {
		char c[2];
		enum script_token tok;
	} two[] = {
		{ { '.', '.' }, TOK_RANGE }, { { '-', '>' }, TOK_ARROW }, { { '<', '=' }, TOK_LE }, { { '>', '=' }, TOK_GE },
		{ { '=', '=' }, TOK_EQ }, { { '!', '=' }, TOK_NE }, { { '~', '=' }, TOK_APPROX }, { { '&', '&' }, TOK_AND },
		{ { '|', '|' }, TOK_OR },
	};

	for (size_t i = 0; i < ARRAY_SIZE(two); i++)
		if (two[i].c[0] == a && two[i].c[1] == b)
			return two[i].tok;
	return TOK_END;
}

static void lex_chars(struct script_parser *p)
{
	struct script_lex *t = &p->t;
	enum script_token two = t->end - t->p > 1 ? two_chars(t->p[0], t->p[1]) : TOK_END;

	t->len = two == TOK_END ? 1 : 2;
	t->tok = two == TOK_END ? TOK_CHAR : two;
	t->c = *t->p;
	if (t->tok == TOK_CHAR && (!t->c || !strchr("+-*/%<>=!(){}[],:", t->c))) {
		if (is_printable(t->c))
			script_fail(p, "'%c' means nothing here", t->c);
		else
			script_fail(p, "a byte of value %u: scripts are ASCII text", (unsigned)(unsigned char)t->c);
		return;
	}
	t->p += t->len;
}

void script_lex_next(struct script_parser *p)
{
	struct script_lex *t = &p->t;

	if (p->rc)
		return;
	skip_blanks(t);
	t->i = 0;
	t->unit = 0;
	t->c = 0;
	if (t->p == t->end) {
		t->tok = TOK_END;
	} else if (*t->p == '\n' || *t->p == ';') {
		t->tok = TOK_EOL;
		t->len = 1;
		if (*t->p++ == '\n') {
			t->line_no++;
			t->line_start = t->p;
		}
	} else if (is_digit(*t->p)) {
		t->tok = TOK_INT;
		lex_int(p);
		t->len = (size_t)(t->p - t->at);
	} else if (is_name_start(*t->p)) {
		t->tok = TOK_NAME;
		lex_name(p);
	} else if (*t->p == '"') {
		t->tok = TOK_STRING;
		lex_string(p);
	} else {
		lex_chars(p);
	}
}

void script_lex_word(struct script_parser *p, const char *what)
{
	struct script_lex *t = &p->t;

	if (p->rc)
		return;
	skip_blanks(t);
	t->tok = TOK_STRING;
	if (t->p < t->end && *t->p == '"') {
		lex_string(p);
		return;
	}
	while (t->p < t->end && *t->p > ' ' && *t->p <= '~' && !strchr(";#{}\"", *t->p))
		t->p++;
	t->len = (size_t)(t->p - t->at);
	if (!t->len)
		script_fail(p, "%s is missing", what);
	else if (t->len > SCRIPT_MAX_TEXT)
		script_fail(p, "%s is too long, at most %d characters", what, SCRIPT_MAX_TEXT);
}

void script_lex_show(const struct script_lex *t, char *buf, size_t len)
{
	if (t->tok == TOK_END)
		snprintf(buf, len, "the end of the script");
	else if (t->tok == TOK_EOL)
		snprintf(buf, len, "the end of the statement");
	else
		snprintf(buf, len, "'%.*s'", (int)(t->len > 40 ? 40 : t->len), t->at);
}

bool script_is_word(const struct script_parser *p, const char *word)
{
	return p->t.tok == TOK_NAME && p->t.len == strlen(word) && !memcmp(p->t.at, word, p->t.len);
}

char *script_text(struct script_parser *p)
{
	char *s = p->rc ? NULL : strndup(p->t.at, p->t.len);

	if (!s && !p->rc) {
		script_fail(p, "out of memory");
		p->rc = -ENOMEM;
	}
	return s;
}
