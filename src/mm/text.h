/*
 * Text into a fixed buffer, for messages of validators and settings: the engine has no printf. Always terminated, cut
 * when full.
 */
#ifndef QUIRE_MM_TEXT_H
#define QUIRE_MM_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text {
	char *buf;
	size_t cap, len;
};

static inline struct text text_into(char *buf, size_t cap)
{
	if (cap)
		buf[0] = '\0';
	return (struct text){ .buf = buf, .cap = cap };
}

static inline void text_char(struct text *t, char ch)
{
	if (t->len + 1 >= t->cap)
		return;
	t->buf[t->len++] = ch;
	t->buf[t->len] = '\0';
}

static inline void text_str(struct text *t, const char *s)
{
	while (*s)
		text_char(t, *s++);
}

static inline void text_u64(struct text *t, uint64_t v)
{
	char digits[20];
	unsigned n = 0;

	do {
		digits[n++] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	while (n)
		text_char(t, digits[--n]);
}

/* Name and number, as validators report them: " name=123". */
static inline void text_field(struct text *t, const char *name, uint64_t v)
{
	text_char(t, ' ');
	text_str(t, name);
	text_char(t, '=');
	text_u64(t, v);
}

#endif
