/*
 * Options by table: getopt_long parses, the same entries give the help text and the nearest name for a mistyped one.
 */
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTS 48
#define HELP_KEY 1000
#define HELP_WIDTH 100U /* columns of a help text, and where the second of an option's begins */
#define HELP_INDENT 33U

int usage_error(const char *command, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "quire%s%s: ", command ? " " : "", command ? command : "");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n('quire%s%s --help' shows what there is)\n", command ? " " : "", command ? command : "");
	return EXIT_USAGE;
}

int failure(const char *fmt, ...)
{
	va_list ap;

	fputs("quire: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return EXIT_FAILED;
}

static unsigned distance(const char *a, const char *b)
{
	unsigned row[64], n = (unsigned)strlen(b);

	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 0; a[i]; i++) {
		unsigned diagonal = row[0];

		row[0] = i + 1;
		for (unsigned j = 0; j < n; j++) {
			unsigned replace = diagonal + (tolower((unsigned char)a[i]) != tolower((unsigned char)b[j]));

			diagonal = row[j + 1];
			row[j + 1] = MIN(replace, MIN(diagonal, row[j]) + 1);
		}
	}
	return row[n];
}

const char *nearest(const char *name, size_t n, const char *(*get)(const void *arg, size_t i), const void *arg)
{
	const char *best = NULL;
	size_t len = strlen(name);
	unsigned best_d = (unsigned)MAX(len / 3, (size_t)2);

	if (!len || len > 60)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		const char *known = get(arg, i);
		size_t known_len = strlen(known);
		unsigned d;

		if (known_len > 60)
			continue;
		d = distance(name, known);
		if (known_len > 2 && (!strncmp(name, known, len) || !strncmp(name, known, known_len)))
			d = 1; /* one begins with the other */
		if (d < known_len && d <= best_d && (!best || d < best_d)) {
			best = known;
			best_d = d;
		}
	}
	return best;
}

static const char *opt_name(const void *arg, size_t i)
{
	return ((const struct opt *)arg)[i].name;
}

static size_t opt_count(const struct opt *opts)
{
	size_t n = 0;

	while (opts[n].name)
		n++;
	return n;
}

/* An option's text, broken at blanks to stay within a page of HELP_WIDTH columns. */
static void print_wrapped(const char *text)
{
	const size_t room = HELP_WIDTH - HELP_INDENT;

	while (strlen(text) > room) {
		size_t n = room;

		while (n && text[n] != ' ')
			n--;
		if (!n)
			break; /* a word that is too long stays whole */
		printf("%.*s\n%*s", (int)n, text, (int)HELP_INDENT, "");
		text += n + 1;
	}
	puts(text);
}

static void print_help(const struct opt *opts, const struct opt_help *help)
{
	printf("usage: %s\n\n%s\n", help->usage, help->text);
	if (opts->name)
		puts("options:");
	for (; opts->name; opts++) {
		char left[64];

		snprintf(left, sizeof(left), "%c%c%s --%s%s%s", opts->letter ? '-' : ' ',
			 opts->letter ? opts->letter : ' ', opts->letter ? "," : " ", opts->name, opts->arg ? " " : "",
			 opts->arg ? opts->arg : "");
		printf("  %-30s ", left);
		print_wrapped(opts->help);
	}
	puts("      --help                     this text");
}

/* Digits and one suffix. 0 or -EINVAL. */
static int parse_number(const char *s, enum opt_kind kind, uint64_t *ret)
{
	static const char letters[] = "kmgt";
	uint64_t unit = 1, base = kind == OPT_COUNT ? 1000 : 1024;
	unsigned long long v;
	const char *at;
	char *end;

	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno)
		return -EINVAL;
	if (*end && (at = strchr(letters, tolower((unsigned char)*end)))) {
		for (long i = at - letters; i >= 0; i--)
			unit *= base;
		end++;
		if (kind != OPT_COUNT && !strcmp(end, "iB"))
			end += 2;
	}
	if (*end || v > UINT64_MAX / unit)
		return -EINVAL;
	*ret = v * unit;
	return 0;
}

/* "150%". 0 or -EINVAL: it is something else, or out of range. */
static int parse_percent(const char *s, uint64_t *ret)
{
	char *end;
	unsigned long v = isdigit((unsigned char)*s) ? strtoul(s, &end, 10) : 0;

	if (!v || v > OPT_PERCENT_MAX || strcmp(end, "%"))
		return -EINVAL;
	*ret = OPT_PERCENT | v;
	return 0;
}

/* Digits, a fraction, and a unit: "0.05", "20ms". No floating point: what is given is what is meant. 0 or -EINVAL. */
static int parse_time(const char *s, uint64_t *ret)
{
	static const struct {
		const char *suffix;
		uint64_t ns;
	} units[] = { { "", 1000000000 }, { "s", 1000000000 }, { "ms", 1000000 }, { "us", 1000 }, { "ns", 1 } };
	uint64_t whole = 0, part = 0, scale = 1;

	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	for (; isdigit((unsigned char)*s); s++) {
		if (whole > 1000000000ULL)
			return -EINVAL;
		whole = whole * 10 + (uint64_t)(*s - '0');
	}
	if (*s == '.')
		for (s++; isdigit((unsigned char)*s) && scale < 1000000000; s++) {
			part = part * 10 + (uint64_t)(*s - '0');
			scale *= 10;
		}
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (!strcmp(s, units[i].suffix)) {
			*ret = whole * units[i].ns + part * units[i].ns / scale;
			return 0;
		}
	return -EINVAL;
}

/* 0, or an exit code after a message. */
static int take(const char *command, const struct opt *o, char *value)
{
	struct opt_list *list = o->to;
	uint64_t v;

	switch (o->kind) {
	case OPT_FLAG:
		*(bool *)o->to = true;
		return 0;
	case OPT_TEXT:
		*(const char **)o->to = value;
		return 0;
	case OPT_LIST:
		if (list->nr == OPT_LIST_MAX)
			return usage_error(command, "--%s: at most %d of them", o->name, OPT_LIST_MAX);
		list->v[list->nr++] = value;
		return 0;
	case OPT_TIME:
		if (parse_time(value, &v) || v < o->min || v > o->max)
			return usage_error(command, "--%s %s: a time in seconds, or with ms, us or ns behind it; at most %" PRIu64 " s",
					   o->name, value, o->max / 1000000000);
		*(uint64_t *)o->to = v;
		return 0;
	case OPT_SIZE_OR_PERCENT:
		if (!parse_percent(value, o->to))
			return 0;
		if (parse_number(value, o->kind, &v) || v < o->min || v > o->max)
			return usage_error(command, "--%s %s: allowed: %" PRIu64 " to %" PRIu64 " bytes (K, M, G, T may follow), or 1%% to %u%%",
					   o->name, value, o->min, o->max, OPT_PERCENT_MAX);
		*(uint64_t *)o->to = v;
		return 0;
	case OPT_SIZE:
	case OPT_COUNT:
		if (parse_number(value, o->kind, &v) || v < o->min || v > o->max)
			return usage_error(command, "--%s %s: allowed: %" PRIu64 " to %" PRIu64 "%s", o->name, value,
					   o->min, o->max,
					   o->kind == OPT_SIZE ? " bytes (K, M, G, T may follow)"
							       : " (k, M, G may follow)");
		*(uint64_t *)o->to = v;
		return 0;
	}
	return 0;
}

static int unknown(const char *command, const struct opt *opts, const char *given)
{
	char name[64];
	const char *near;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(given, "="), given);
	near = !strncmp(name, "--", 2) ? nearest(name + 2, opt_count(opts), opt_name, opts) : NULL;
	return usage_error(command, "no such option: %s%s%s%s", name, near ? "; did you mean --" : "", near ? near : "",
			   near ? "?" : "");
}

static int parse_all(int argc, char **argv, const struct opt *opts, const struct opt_help *help, struct opt_list *args)
{
	struct option longs[MAX_OPTS + 2] = { 0 };
	char shorts[2 * MAX_OPTS + 2] = ":";
	size_t n = opt_count(opts), len = 1;
	int key, index;

	for (size_t i = 0; i < n && i < MAX_OPTS; i++) {
		longs[i] = (struct option){ .name = opts[i].name,
					    .has_arg = opts[i].kind != OPT_FLAG,
					    .val = (int)i + HELP_KEY + 1 };
		if (opts[i].letter) {
			shorts[len++] = opts[i].letter;
			if (opts[i].kind != OPT_FLAG)
				shorts[len++] = ':';
		}
	}
	longs[n] = (struct option){ .name = "help", .val = HELP_KEY };
	optind = 0;
	opterr = 0;
	while ((key = getopt_long(argc, argv, shorts, longs, &index)) != -1) {
		const struct opt *o = NULL;
		int rc;

		if (key == HELP_KEY) {
			print_help(opts, help);
			return EXIT_DONE;
		}
		if (key == '?')
			return unknown(argv[0], opts, argv[optind - 1]);
		if (key == ':')
			return usage_error(argv[0], "%s needs a value", argv[optind - 1]);
		for (size_t i = 0; i < n; i++)
			if (key == (int)i + HELP_KEY + 1 || (opts[i].letter && key == opts[i].letter))
				o = &opts[i];
		rc = o ? take(argv[0], o, optarg) : EXIT_USAGE;
		if (rc)
			return rc;
	}
	for (; optind < argc; optind++) {
		if (args->nr == OPT_LIST_MAX)
			return usage_error(argv[0], "too many arguments");
		args->v[args->nr++] = argv[optind];
	}
	return -1;
}

int opt_parse(int argc, char **argv, const struct opt *opts, const struct opt_help *help, struct opt_list *args,
	      char ***ret_rest)
{
	int n = argc;

	*ret_rest = NULL;
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--")) {
			*ret_rest = argv + i + 1;
			n = i;
			break;
		}
	return parse_all(n, argv, opts, help, args);
}
