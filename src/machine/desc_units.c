/*
 * Numbers with units in machine files. Integers only: a decimal is a mantissa and a power of ten, and a value that is finer than
 * the field's unit is an error instead of being rounded. (Only 'cycles' are rounded, to the nearest picosecond.)
 */
#include "machine/desc_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct suffix {
	const char *text;
	uint64_t mul;
};

#define MAX_SUFFIXES 12

static const struct suffix suffixes[NR_UNITS][MAX_SUFFIXES] = {
	[UNIT_COUNT] = { { "", 1 } },
	[UNIT_SOCKET] = { { "", 1 } },
	[UNIT_LIST] = { { "", 1 } },
	[UNIT_RATIO] = { { "", 1000 } },
	[UNIT_SIZE] = { { "T", 1ULL << 40 }, { "G", 1ULL << 30 }, { "M", 1ULL << 20 }, { "K", 1ULL << 10 }, { "", 1 },
			{ "TiB", 1ULL << 40 }, { "GiB", 1ULL << 30 }, { "MiB", 1ULL << 20 }, { "KiB", 1ULL << 10 } },
	[UNIT_TIME] = { { "s", 1000000000000ULL }, { "ms", 1000000000 }, { "us", 1000000 }, { "ns", 1000 }, { "ps", 1 } },
	[UNIT_FREQ] = { { "GHz", 1000000 }, { "MHz", 1000 }, { "kHz", 1 } },
	[UNIT_BW] = { { "TB/s", 1000000 }, { "GB/s", 1000 }, { "MB/s", 1 } },
};

static const char *const repl_names[] = { "lru", "plru", "random", "srrip", "brrip", NULL };
static const char *const incl_names[] = { "inclusive", "non_inclusive", "exclusive", NULL };
static const char *const bool_names[] = { "false", "true", "no", "yes", NULL };

/* Units whose values are words; NULL for the others. */
static const char *const *words(enum desc_unit u)
{
	return u == UNIT_REPL ? repl_names : u == UNIT_INCL ? incl_names : u == UNIT_BOOL ? bool_names : NULL;
}

const char *desc_unit_help(enum desc_unit u)
{
	static const char *const help[NR_UNITS] = {
		[UNIT_TEXT] = "text",
		[UNIT_COUNT] = "a whole number",
		[UNIT_SIZE] = "a size such as 48K, 2M or 64G",
		[UNIT_TIME] = "a time such as 90ns, 1.5us or 4cycles",
		[UNIT_FREQ] = "a frequency such as 2.3GHz",
		[UNIT_BW] = "a bandwidth such as 60GB/s",
		[UNIT_RATIO] = "a number with at most three decimals",
		[UNIT_BOOL] = "true or false",
		[UNIT_REPL] = "lru, plru, random, srrip or brrip",
		[UNIT_INCL] = "inclusive, non_inclusive or exclusive",
		[UNIT_SOCKET] = "a socket's number, or none",
		[UNIT_LIST] = "a list of whole numbers",
	};

	return help[u];
}

/* Digits with at most one point. Leaves *text behind them. At most 18 digits, so that everything stays within 64 bits. */
static int parse_decimal(const char **text, uint64_t *ret_mantissa, uint64_t *ret_scale)
{
	const char *p = *text;
	unsigned digits = 0;
	bool point = false;

	*ret_mantissa = 0;
	*ret_scale = 1;
	for (;; p++) {
		if (*p == '.' && !point && digits && p[1] >= '0' && p[1] <= '9') {
			point = true;
			continue;
		}
		if (*p < '0' || *p > '9')
			break;
		if (++digits > 18)
			return -ERANGE;
		*ret_mantissa = *ret_mantissa * 10 + (uint64_t)(*p - '0');
		if (point)
			*ret_scale *= 10;
	}
	*text = p;
	return digits ? 0 : -EINVAL;
}

static int from_cycles(uint64_t mantissa, uint64_t scale, uint64_t freq_khz, uint64_t *ret)
{
	unsigned __int128 num = (unsigned __int128)mantissa * 1000000000ULL, den;

	if (!freq_khz)
		return -EINVAL;
	den = (unsigned __int128)scale * freq_khz;
	num = (num + den / 2) / den;
	if (num > UINT64_MAX)
		return -ERANGE;
	*ret = (uint64_t)num;
	return 0;
}

static int parse_number(enum desc_unit u, const char *text, uint64_t freq_khz, uint64_t *ret)
{
	uint64_t mantissa, scale;
	int res = parse_decimal(&text, &mantissa, &scale);

	if (res)
		return res;
	while (*text == ' ')
		text++;
	/* Nothing is the same in every unit. */
	if (!*text && !mantissa) {
		*ret = 0;
		return 0;
	}
	if (u == UNIT_TIME && (!strcmp(text, "cycles") || !strcmp(text, "cycle")))
		return from_cycles(mantissa, scale, freq_khz, ret);
	for (unsigned i = 0; i < MAX_SUFFIXES && suffixes[u][i].text; i++) {
		unsigned __int128 v = (unsigned __int128)mantissa * suffixes[u][i].mul;

		if (strcmp(text, suffixes[u][i].text) != 0)
			continue;
		if (v % scale || v / scale > UINT64_MAX)
			return -ERANGE;
		*ret = (uint64_t)(v / scale);
		return 0;
	}
	return -EINVAL;
}

int desc_parse(enum desc_unit u, const char *text, uint64_t freq_khz, uint64_t *ret)
{
	const char *const *w = words(u);

	if (u == UNIT_TEXT)
		return -EINVAL;
	if (u == UNIT_SOCKET && !strcmp(text, "none")) {
		*ret = UINT32_MAX;
		return 0;
	}
	if (!w)
		return parse_number(u, text, freq_khz, ret);
	for (uint64_t i = 0; w[i]; i++) {
		if (!strcmp(text, w[i])) {
			*ret = u == UNIT_BOOL ? i & 1 : i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *desc_format(enum desc_unit u, uint64_t v, char *buf, size_t len)
{
	const char *const *w = words(u);
	const struct suffix *s = suffixes[u];

	if (w) {
		snprintf(buf, len, "%s", w[v]);
		return buf;
	}
	if (u == UNIT_SOCKET && v == UINT32_MAX) {
		snprintf(buf, len, "none");
		return buf;
	}
	if (!v) {
		snprintf(buf, len, "0");
		return buf;
	}
	/* The largest unit in which it is a whole number; ratios have decimals. */
	while (s[1].text && s[1].text[0] && v % s->mul)
		s++;
	if (s[1].text && !s[1].text[0] && v % s->mul)
		s++;
	if (u == UNIT_RATIO && v % 1000) {
		int n = snprintf(buf, len, "%llu.%03llu", (unsigned long long)(v / 1000), (unsigned long long)(v % 1000));

		while (n > 0 && (size_t)n < len && buf[n - 1] == '0')
			buf[--n] = '\0';
		return buf;
	}
	snprintf(buf, len, "%llu%s", (unsigned long long)(v / s->mul), s->text ? s->text : "");
	return buf;
}
