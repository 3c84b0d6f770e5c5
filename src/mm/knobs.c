/*
 * Reading, setting and printing settings by name. What exists is in knob_table.c. A value is parsed and checked whole
 * before anything is stored, so that an error changes nothing.
 */
#include "mm/knobs.h"
#include "base/compiler.h"
#include "base/errno.h"
#include "mm/text.h"

#include <string.h>

#define NAME_MAX_LEN 64U

static uint64_t value_get(const struct knobs *k, const struct knob *kn)
{
	const char *p = (const char *)k + kn->offset;
	uint64_t v64;
	uint32_t v32;

	if (kn->type == KNOB_BOOL)
		return *(const bool *)p;
	if (kn->size == sizeof(v32)) {
		memcpy(&v32, p, sizeof(v32));
		return v32;
	}
	memcpy(&v64, p, sizeof(v64));
	return v64;
}

static void value_put(struct knobs *k, const struct knob *kn, uint64_t v)
{
	char *p = (char *)k + kn->offset;
	uint32_t v32 = (uint32_t)v;

	if (kn->type == KNOB_BOOL)
		*(bool *)p = v != 0;
	else if (kn->size == sizeof(v32))
		memcpy(p, &v32, sizeof(v32));
	else
		memcpy(p, &v, sizeof(v));
}

void knobs_default(struct knobs *k)
{
	memset(k, 0, sizeof(*k));
	for (size_t i = 0; i < knob_count; i++)
		value_put(k, &knob_table[i], knob_table[i].def);
}

const struct knob *knob_find(const char *name)
{
	for (size_t i = 0; i < knob_count; i++)
		if (!strcmp(knob_table[i].name, name))
			return &knob_table[i];
	return NULL;
}

static char lower(char ch)
{
	return ch >= 'A' && ch <= 'Z' ? (char)(ch - 'A' + 'a') : ch == '-' || ch == '/' ? (ch == '-' ? '_' : '.') : ch;
}

/*
 * How many characters must be inserted, deleted or replaced; case, '-' for '_' and '/' for '.' cost nothing. Both
 * within NAME_MAX_LEN.
 */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned row[NAME_MAX_LEN + 1], n = (unsigned)strlen(b);

	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 0; a[i]; i++) {
		unsigned diagonal = row[0];

		row[0] = i + 1;
		for (unsigned j = 0; j < n; j++) {
			unsigned replace = diagonal + (lower(a[i]) != lower(b[j]));

			diagonal = row[j + 1];
			row[j + 1] = MIN(replace, MIN(diagonal, row[j]) + 1);
		}
	}
	return row[n];
}

/* The part after the last dot. */
static const char *last_part(const char *name)
{
	const char *part = name;

	for (; *name; name++)
		if (*name == '.')
			part = name + 1;
	return part;
}

const char *knob_nearest(const char *name)
{
	const char *best = NULL;
	size_t len = strlen(name);
	unsigned best_d = (unsigned)MAX(len / 3, 2);

	if (!len || len > NAME_MAX_LEN)
		return NULL;
	for (size_t i = 0; i < knob_count; i++) {
		const char *known = knob_table[i].name;
		unsigned d = edit_distance(name, known), tail;

		/*
		 * Somebody who leaves out what comes before the last dot, or puts something else there, is near as
		 * well.
		 */
		tail = edit_distance(last_part(name), last_part(known)) + 1;
		if (strlen(last_part(name)) / 3 >= tail - 1 && tail < d)
			d = tail;
		if (d <= best_d && (!best || d < best_d)) {
			best_d = d;
			best = known;
		}
	}
	return best;
}

static int parse_bool(const char *s, uint64_t *ret)
{
	static const char *const words[2][5] = { { "0", "n", "no", "off", "false" },
						 { "1", "y", "yes", "on", "true" } };

	for (unsigned v = 0; v < 2; v++) {
		for (unsigned i = 0; i < ARRAY_SIZE(words[v]); i++) {
			const char *w = words[v][i];
			size_t n = 0;

			while (w[n] && lower(s[n]) == w[n])
				n++;
			if (!w[n] && !s[n]) {
				*ret = v;
				return 0;
			}
		}
	}
	return -EINVAL;
}

static int parse_enum(const struct knob *kn, const char *s, uint64_t *ret)
{
	for (uint64_t i = 0; kn->choices[i]; i++) {
		if (!strcmp(kn->choices[i], s)) {
			*ret = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int digit(char ch, unsigned base)
{
	int v = ch >= '0' && ch <= '9' ? ch - '0' : lower(ch) >= 'a' && lower(ch) <= 'f' ? lower(ch) - 'a' + 10 : 99;

	return v < (int)base ? v : -1;
}

/* Decimal or 0x..., and for byte values a suffix K, M or G. */
static int parse_int(const struct knob *kn, const char *s, uint64_t *ret)
{
	unsigned base = s[0] == '0' && lower(s[1]) == 'x' ? 16 : 10, shift = 0;
	uint64_t v = 0;

	s += base == 16 ? 2 : 0;
	if (digit(*s, base) < 0)
		return -EINVAL;
	for (; digit(*s, base) >= 0; s++)
		if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, (uint64_t)digit(*s, base), &v))
			return -EINVAL;
	if (*s && !strcmp(kn->unit, "bytes"))
		shift = lower(*s) == 'k' ? 10 : lower(*s) == 'm' ? 20 : lower(*s) == 'g' ? 30 : 0;
	s += shift != 0;
	if (*s || v > UINT64_MAX >> shift)
		return -EINVAL;
	v <<= shift;
	if (!(v == 0 && kn->zero_ok) && (v < kn->min || v > kn->max))
		return -EINVAL;
	*ret = kn->pow2 && v ? 1ULL << (63 - __builtin_clzll(v)) : v;
	return 0;
}

static void say_allowed(const struct knob *kn, char *buf, size_t len)
{
	struct text t = text_into(buf, len);

	if (kn->type == KNOB_BOOL)
		text_str(&t, "0 or 1");
	for (unsigned i = 0; kn->type == KNOB_ENUM && kn->choices[i]; i++) {
		if (i)
			text_str(&t, kn->choices[i + 1] ? ", " : " or ");
		text_str(&t, kn->choices[i]);
	}
	if (kn->type == KNOB_INT) {
		text_str(&t, kn->zero_ok ? "0, or " : "");
		text_u64(&t, kn->min);
		text_str(&t, " to ");
		text_u64(&t, kn->max);
		text_str(&t, *kn->unit ? " " : "");
		text_str(&t, kn->unit);
		text_str(&t, !strcmp(kn->unit, "bytes") ? " (K, M, G may follow)" : "");
	}
}

int knob_set(struct knobs *k, const char *name, const char *value, char *buf, size_t len)
{
	const struct knob *kn = knob_find(name);
	uint64_t v = 0;
	int err;

	if (!kn)
		return -ENOENT;
	err = kn->type == KNOB_BOOL   ? parse_bool(value, &v)
	      : kn->type == KNOB_ENUM ? parse_enum(kn, value, &v)
				      : parse_int(kn, value, &v);
	if (err) {
		say_allowed(kn, buf, len);
		return err;
	}
	value_put(k, kn, v);
	return 0;
}

void knob_format(const struct knobs *k, const struct knob *kn, char *buf, size_t len)
{
	struct text t = text_into(buf, len);
	uint64_t v = value_get(k, kn);

	if (kn->type == KNOB_ENUM)
		text_str(&t, kn->choices[v]);
	else
		text_u64(&t, v);
}
