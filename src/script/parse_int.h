/* What the files of the parser share. One parser reads one text; the first error ends it, and everything after is skipped. */
#ifndef QUIRE_SCRIPT_PARSE_INT_H
#define QUIRE_SCRIPT_PARSE_INT_H

#include "script/ops.h"

enum script_token {
	TOK_END,
	TOK_EOL, /* end of line, or ';' */
	TOK_INT,
	TOK_NAME, /* a name, dots inside included */
	TOK_STRING,
	TOK_RANGE, /* .. */
	TOK_ARROW, /* -> */
	TOK_LE, TOK_GE, TOK_EQ, TOK_NE, TOK_APPROX /* ~= */, TOK_AND, TOK_OR,
	TOK_CHAR, /* any other: in .c */
};

struct script_lex {
	enum script_token tok;
	char c;            /* TOK_CHAR */
	uint8_t unit;      /* TOK_INT */
	bool spaced;       /* white space before it */
	uint32_t line, col;
	uint64_t i;        /* TOK_INT */
	const char *at;    /* the token's text (a string's: inside of the quotes) */
	size_t len;
	/* the text */
	const char *p, *end, *line_start;
	uint32_t line_no;
};

struct script_parser {
	struct script *s;
	struct script_lex t; /* the token at hand */
	unsigned depth, expr_depth;
	int rc;              /* 0, or the first error */
	char *err;
	size_t errlen;
};

/* ---- lex.c ---- */
void script_lex_begin(struct script_parser *p, const char *text, size_t len);
/* The next token becomes the one at hand; TOK_END from the end, or the first error, on. */
void script_lex_next(struct script_parser *p);
/* Instead of the next token: a word up to white space, ';', '#' or a brace, or a string. It becomes a TOK_STRING. */
void script_lex_word(struct script_parser *p, const char *what);
/* The token as people see it, for messages. */
void script_lex_show(const struct script_lex *t, char *buf, size_t len);

/* The first error counts. Always false. */
ATTR_PRINTF(2, 3) bool script_fail(struct script_parser *p, const char *fmt, ...);
ATTR_PRINTF(4, 5) bool script_fail_at(struct script_parser *p, uint32_t line, uint32_t col, const char *fmt, ...);

static inline bool script_is(const struct script_parser *p, char c)
{
	return p->t.tok == TOK_CHAR && p->t.c == c;
}

bool script_is_word(const struct script_parser *p, const char *word);
/* A copy of the token's text. NULL: out of memory, which is noted. */
char *script_text(struct script_parser *p);
/* The number of a name in s->names. */
bool script_name(struct script_parser *p, const char *at, size_t len, uint32_t *ret);

/* ---- parse_call.c ---- */
/* `what` should be here, and something else is. Always false. */
bool script_missing(struct script_parser *p, const char *what);
bool script_at_end(const struct script_parser *p);
bool script_end_of_stmt(struct script_parser *p);
/* The op whose word is at hand (of several, the first): NR_SCRIPT_OPS when it is none. */
unsigned script_op_at(const struct script_parser *p);
/* Goes past the word at hand, and past its second one. */
bool script_parse_op(struct script_parser *p, enum script_op *ret);
/* The name that an op is followed by, if it is. */
bool script_parse_noun(struct script_parser *p, struct script_stmt *st);
/* Everything after that. */
bool script_parse_rest(struct script_parser *p, struct script_stmt *st);
/* Two words as they stand; `set` is at hand. */
bool script_parse_setting(struct script_parser *p, char **name, char **value);
/* The name at hand may be bound. */
bool script_may_bind(struct script_parser *p);

/* ---- parse_expr.c: NULL after an error ---- */
struct script_expr *script_parse_expr(struct script_parser *p);
/* Without comparisons: an operand of these, or a parameter. */
struct script_expr *script_parse_sum(struct script_parser *p);
/* A name with its index, if it has one; `what` for messages. */
struct script_expr *script_parse_name(struct script_parser *p, const char *what);
struct script_expr *script_expr_int(struct script_parser *p, int64_t v);
void script_expr_free(struct script_expr *e);
/* A name that a script may not bind. */
bool script_name_reserved(const char *name, size_t len);

void script_stmt_free(struct script_stmt *st);
void script_block_free(struct script_block *b);

/* ---- print.c ---- */
void script_print_expr(const struct script *s, const struct script_expr *e, FILE *to);
/* A number in the words of a parameter. */
void script_print_words(enum script_param_kind kind, const struct script_word *w, int64_t v, FILE *to);

#endif
