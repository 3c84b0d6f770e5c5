/*
 * Experiment files: YAML to structs by tables of keys. A complaint is one line "FILE:LINE:COL: key: value: what is allowed".
 *
 * Bounded: the text (MAX_FILE), lists (by the structs), nesting (by the tables). Aliases are refused, so nothing can expand. Names of
 * workloads, settings, machines and their values are checked here, before anything runs.
 */
#include "lab/experiment.h"

#include "base/compiler.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define MAX_FILE (256U << 10)

enum value_kind { V_TEXT, V_NAME, V_COUNT, V_SIZE, V_TIME, V_RATIO, V_SHARE, V_BOOL, V_OF, V_PLACEMENT, V_NAMES, V_SETTINGS };

/* A key of a mapping: how its value is read, and where it goes. */
struct key {
	const char *name;
	enum value_kind kind;
	size_t offset;
	size_t nr_offset; /* lists: of the count; V_RATIO: of a bool that says it is there (0: none) */
	uint64_t min, max;
	bool required;
};

struct reader {
	const char *file;
	yaml_document_t doc;
	char *err;
	size_t errlen;
};

#define F(type, field) offsetof(struct type, field)

static const struct key figure_keys[] = {
	{ "metric", V_NAME, F(figure, metric), 0, 0, 0, true },
	{ "of", V_OF, F(figure, of), 0, 0, 0, false },
	{ "published", V_RATIO, F(figure, published), F(figure, has_published), 0, 0, false },
	{ "within", V_RATIO, F(figure, within), F(figure, has_within), 0, 0, false },
	{ "as", V_TEXT, F(figure, as), 0, 0, 0, false },
	{ 0 },
};
static const struct key trial_keys[] = {
	{ "machine", V_NAME, F(trial, machine), 0, 0, 0, false },
	{ "tasks", V_COUNT, F(trial, tasks), 0, 1, 65536, true },
	{ "size", V_SIZE, F(trial, size), 0, 4096, 1ULL << 46, true },
	{ "least", V_SIZE, F(trial, least), 0, 4096, 1ULL << 46, false },
	{ "stagger", V_TIME, F(trial, stagger_ns), 0, 0, 1000000000, false },
	{ "think", V_TIME, F(trial, think_ns), 0, 0, 1000000000, false },
	{ "passes", V_COUNT, F(trial, passes), 0, 1, 1000000, false },
	{ "rounds", V_COUNT, F(trial, rounds), 0, 1, STATS_MAX_PAIRS, false },
	{ "placement", V_PLACEMENT, F(trial, placement), 0, 0, 0, false },
	{ 0 },
};
static const struct key case_keys[] = {
	{ "case", V_TEXT, F(experiment_case, name), 0, 0, 0, true },
	{ "note", V_TEXT, F(experiment_case, note), 0, 0, 0, false },
	{ "workload", V_NAME, F(experiment_case, workload), 0, 0, 0, true },
	{ "knob", V_NAME, F(experiment_case, knob), 0, 0, 0, true },
	{ "base", V_NAME, F(experiment_case, base), 0, 0, 0, true },
	{ "with", V_NAMES, F(experiment_case, with), F(experiment_case, nr_with), 1, EXPERIMENT_MAX_WITH, true },
	{ "settings", V_SETTINGS, F(experiment_case, settings), F(experiment_case, nr_settings), 0, EXPERIMENT_MAX_SETTINGS, false },
	{ "control", V_BOOL, F(experiment_case, control), 0, 0, 0, false },
	{ "tolerance", V_RATIO, F(experiment_case, tolerance), 0, 0, 0, false },
	{ "model", V_TEXT, 0, 0, 0, 0, false },   /* mappings and lists: read apart */
	{ "host", V_TEXT, 0, 0, 0, 0, false },
	{ "figures", V_TEXT, 0, 0, 0, 0, true },
	{ 0 },
};
static const struct key top_keys[] = {
	{ "title", V_TEXT, F(experiment, title), 0, 0, 0, true },
	{ "mechanism", V_COUNT, F(experiment, mechanism), 0, 0, 4, true },
	{ "source", V_TEXT, F(experiment, source), 0, 0, 0, true },
	{ "scale", V_SHARE, F(experiment, scale), 0, 0, 0, true },
	{ "scale_rule", V_TEXT, F(experiment, scale_rule), 0, 0, 0, true },
	{ "explains", V_TEXT, F(experiment, explains), 0, 0, 0, true },
	{ "cases", V_TEXT, 0, 0, 0, 0, true },
	{ 0 },
};

/* ---- complaints ---- */

ATTR_PRINTF(5, 6) static int fail(struct reader *r, const yaml_node_t *at, const char *key, const char *value, const char *allowed, ...)
{
	int n = snprintf(r->err, r->errlen, "%s:%zu:%zu: ", r->file, at ? at->start_mark.line + 1 : 1, at ? at->start_mark.column + 1 : 1);
	va_list ap;

	if (key && (size_t)n < r->errlen)
		n += snprintf(r->err + n, r->errlen - (size_t)n, "%s: ", key);
	if (value && *value && (size_t)n < r->errlen)
		n += snprintf(r->err + n, r->errlen - (size_t)n, "%.40s: ", value);
	va_start(ap, allowed);
	if ((size_t)n < r->errlen)
		vsnprintf(r->err + n, r->errlen - (size_t)n, allowed, ap);
	va_end(ap);
	/* Keys and values are anybody's: nothing of them ends the line or talks to the terminal. */
	for (char *c = r->err; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = ' ';
	return -EINVAL;
}

static const yaml_node_t *node(struct reader *r, int id)
{
	return yaml_document_get_node(&r->doc, id);
}

static const char *scalar(const yaml_node_t *n)
{
	return n->type == YAML_SCALAR_NODE && strlen((const char *)n->data.scalar.value) == n->data.scalar.length ?
		       (const char *)n->data.scalar.value : NULL;
}

/* ---- values ---- */

static const char *allowed_text(const struct key *k, char *buf, size_t len)
{
	switch (k->kind) {
	case V_TEXT:
		return "text";
	case V_NAME:
		return "a name";
	case V_COUNT:
		snprintf(buf, len, "a whole number from %llu to %llu", (unsigned long long)k->min, (unsigned long long)k->max);
		return buf;
	case V_SIZE:
		return "a size such as 64M or 2G";
	case V_TIME:
		return "a time such as 20us or 5ms, at most 1s";
	case V_RATIO:
		return "a number such as 1.166";
	case V_SHARE:
		return "a part of the whole such as 1/64 or 0.1";
	case V_BOOL:
		return "true or false";
	case V_OF:
		return "gain, base or with, and for the second and later values gain2, with2, ...";
	case V_PLACEMENT:
		return "none, spread or compact";
	case V_NAMES:
		snprintf(buf, len, "a list of 1 to %d values", EXPERIMENT_MAX_WITH);
		return buf;
	case V_SETTINGS:
		return "a mapping of settings to values";
	}
	return "";
}

/* A number and a suffix out of a table. */
static int scaled(const char *s, const char *const *suffix, const uint64_t *mul, uint64_t *ret)
{
	char *end;
	unsigned long long v;

	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	errno = 0;
	v = strtoull(s, &end, 10);
	for (size_t i = 0; suffix[i]; i++)
		if (!strcmp(end, suffix[i]) && !errno && v <= UINT64_MAX / mul[i]) {
			*ret = v * mul[i];
			return 0;
		}
	return -EINVAL;
}

static int parse_share(const char *s, double *ret)
{
	char *end;
	double v = strtod(s, &end);

	if (end == s)
		return -EINVAL;
	if (*end == '/') {
		const char *den = end + 1;
		double d = strtod(den, &end);

		if (end == den || !(d >= 1))
			return -EINVAL;
		v /= d;
	}
	if (*end || !(v > 0 && v <= 1))
		return -EINVAL;
	*ret = v;
	return 0;
}

static int parse_of(const char *s, struct figure *f)
{
	static const char *const words[] = { [OF_GAIN] = "gain", [OF_BASE] = "base", [OF_WITH] = "with" };

	for (unsigned i = 0; i < ARRAY_SIZE(words); i++) {
		size_t n = strlen(words[i]);

		if (strncmp(s, words[i], n) || (s[n] && (i == OF_BASE || s[n] < '2' || s[n] > '0' + EXPERIMENT_MAX_WITH || s[n + 1])))
			continue;
		f->of = (enum figure_of)i;
		f->with = s[n] ? (uint32_t)(s[n] - '1') : 0;
		return 0;
	}
	return -EINVAL;
}

static int parse_placement(const char *s, enum workload_placement *ret)
{
	*ret = !strcmp(s, "none") ? PLACEMENT_NONE : !strcmp(s, "spread") ? PLACEMENT_SPREAD : PLACEMENT_COMPACT;
	return *ret == PLACEMENT_COMPACT && strcmp(s, "compact") ? -EINVAL : 0;
}

static int parse_number(const struct key *k, const char *s, void *to, char *base)
{
	static const char *const sizes[] = { "", "K", "M", "G", "T", NULL }, *const times[] = { "ns", "us", "ms", "s", NULL };
	static const char *const plain[] = { "", NULL };
	static const uint64_t size_mul[] = { 1, 1 << 10, 1 << 20, 1 << 30, 1ULL << 40 }, time_mul[] = { 1, 1000, 1000000, 1000000000 };
	char *end;
	double d;
	uint64_t v;
	int rc;

	switch (k->kind) {
	case V_COUNT:
	case V_SIZE:
	case V_TIME:
		rc = k->kind == V_COUNT ? scaled(s, plain, size_mul, &v) :
		     k->kind == V_SIZE  ? scaled(s, sizes, size_mul, &v) : scaled(s, times, time_mul, &v);
		if (rc || v < k->min || v > k->max)
			return -EINVAL;
		if (k->kind == V_COUNT)
			*(uint32_t *)to = (uint32_t)v;
		else
			*(uint64_t *)to = v;
		return 0;
	case V_RATIO:
		d = strtod(s, &end);
		if (end == s || *end || !(d >= 0 && d < 1e15))
			return -EINVAL;
		*(double *)to = d;
		if (k->nr_offset)
			*(bool *)(void *)(base + k->nr_offset) = true;
		return 0;
	default:
		return -EINVAL;
	}
}

static int keep(char **to, const char *s)
{
	free(*to);
	*to = strdup(s);
	return *to ? 0 : -ENOMEM;
}

static int read_list(struct reader *r, const struct key *k, const yaml_node_t *v, char *base)
{
	char **list = (char **)(void *)(base + k->offset);
	uint32_t *nr = (uint32_t *)(void *)(base + k->nr_offset);
	char buf[80];

	if (v->type != YAML_SEQUENCE_NODE)
		return fail(r, v, k->name, NULL, "%s", allowed_text(k, buf, sizeof(buf)));
	for (yaml_node_item_t *i = v->data.sequence.items.start; i < v->data.sequence.items.top; i++) {
		const char *s = scalar(node(r, *i));

		if (!s || !*s || *nr >= k->max)
			return fail(r, node(r, *i), k->name, s, "%s", allowed_text(k, buf, sizeof(buf)));
		if (keep(&list[*nr], s))
			return -ENOMEM;
		(*nr)++;
	}
	return *nr ? 0 : fail(r, v, k->name, NULL, "%s", allowed_text(k, buf, sizeof(buf)));
}

/* NAME: VALUE pairs, checked against the settings there are. */
static int read_settings(struct reader *r, const struct key *k, const yaml_node_t *v, struct experiment_case *c)
{
	struct knobs scratch;

	if (v->type != YAML_MAPPING_NODE)
		return fail(r, v, k->name, NULL, "a mapping of settings to values");
	knobs_default(&scratch);
	for (yaml_node_pair_t *p = v->data.mapping.pairs.start; p < v->data.mapping.pairs.top; p++) {
		const char *name = scalar(node(r, p->key)), *value = scalar(node(r, p->value));
		char text[160], why[300];

		if (!name || !value || c->nr_settings == EXPERIMENT_MAX_SETTINGS)
			return fail(r, node(r, p->key), k->name, name, "at most %d settings with a value each", EXPERIMENT_MAX_SETTINGS);
		snprintf(text, sizeof(text), "%s=%s", name, value);
		if (settings_apply(&scratch, "setting", text, why, sizeof(why)))
			return fail(r, node(r, p->key), k->name, NULL, "%s", why);
		if (keep(&c->settings[c->nr_settings], text))
			return -ENOMEM;
		c->nr_settings++;
	}
	return 0;
}

static int read_value(struct reader *r, const struct key *k, const yaml_node_t *v, void *base)
{
	char *to = (char *)base + k->offset, buf[80];
	const char *s = scalar(v);
	int rc = -EINVAL;

	if (k->kind == V_NAMES)
		return read_list(r, k, v, base);
	if (k->kind == V_SETTINGS)
		return read_settings(r, k, v, base);
	if (s && *s) {
		switch (k->kind) {
		case V_TEXT:
		case V_NAME:
			rc = keep((char **)(void *)to, s);
			break;
		case V_SHARE:
			rc = parse_share(s, (double *)(void *)to);
			break;
		case V_BOOL:
			*(bool *)(void *)to = !strcmp(s, "true");
			rc = !strcmp(s, "true") || !strcmp(s, "false") ? 0 : -EINVAL;
			break;
		case V_OF:
			rc = parse_of(s, base);
			break;
		case V_PLACEMENT:
			rc = parse_placement(s, (enum workload_placement *)(void *)to);
			break;
		default:
			rc = parse_number(k, s, to, base);
		}
	}
	return rc == -EINVAL ? fail(r, v, k->name, s, "%s", allowed_text(k, buf, sizeof(buf))) : rc;
}

/* ---- mappings ---- */

static void known_keys(const struct key *keys, char *buf, size_t len)
{
	size_t at = 0;

	for (; keys->name && at < len; keys++)
		at += (size_t)snprintf(buf + at, len - at, "%s%s", at ? ", " : "", keys->name);
}

/* `apart` reads the keys that are no plain values; returns 1 when it was none of its. */
typedef int apart_fn(struct reader *r, const char *name, const yaml_node_t *v, void *base);

static int read_mapping(struct reader *r, const yaml_node_t *m, const char *what, const struct key *keys, void *base, apart_fn *apart)
{
	char known[300];
	uint32_t seen = 0;

	if (m->type != YAML_MAPPING_NODE)
		return fail(r, m, what, NULL, "a mapping");
	for (yaml_node_pair_t *p = m->data.mapping.pairs.start; p < m->data.mapping.pairs.top; p++) {
		const yaml_node_t *kn = node(r, p->key);
		const char *name = scalar(kn);
		unsigned i = 0;
		int rc;

		while (keys[i].name && (!name || strcmp(keys[i].name, name)))
			i++;
		if (!keys[i].name) {
			known_keys(keys, known, sizeof(known));
			return fail(r, kn, name ? name : what, NULL, "unknown key; there are %s", known);
		}
		if (seen & 1U << i)
			return fail(r, kn, name, NULL, "given twice");
		seen |= 1U << i;
		rc = apart ? apart(r, name, node(r, p->value), base) : 1;
		if (rc == 1)
			rc = read_value(r, &keys[i], node(r, p->value), base);
		if (rc)
			return rc;
	}
	for (unsigned i = 0; keys[i].name; i++)
		if (keys[i].required && !(seen & 1U << i)) {
			char buf[80];

			return fail(r, m, keys[i].name, NULL, "missing: %s", allowed_text(&keys[i], buf, sizeof(buf)));
		}
	return 0;
}

/* Room for the items of a list. */
static int list_of(struct reader *r, const yaml_node_t *v, const char *what, uint32_t max, size_t size, void *ret, uint32_t *ret_nr)
{
	size_t n = v->type == YAML_SEQUENCE_NODE ? (size_t)(v->data.sequence.items.top - v->data.sequence.items.start) : 0;

	if (!n || n > max)
		return fail(r, v, what, NULL, "a list of 1 to %u mappings", max);
	*(void **)ret = calloc(n, size);
	if (!*(void **)ret)
		return -ENOMEM;
	*ret_nr = (uint32_t)n;
	return 0;
}

static int read_figures(struct reader *r, const yaml_node_t *v, struct experiment_case *c)
{
	int rc = list_of(r, v, "figures", EXPERIMENT_MAX_FIGURES, sizeof(*c->figures), &c->figures, &c->nr_figures);

	for (uint32_t i = 0; !rc && i < c->nr_figures; i++)
		rc = read_mapping(r, node(r, v->data.sequence.items.start[i]), "figures", figure_keys, &c->figures[i], NULL);
	return rc;
}

static int read_trial(struct reader *r, const yaml_node_t *v, const char *what, bool model, struct trial *t)
{
	int rc = read_mapping(r, v, what, trial_keys, t, NULL);
	struct machine_desc d;
	char why[600];

	if (rc)
		return rc;
	t->on = true;
	if (model != (t->machine != NULL))
		return fail(r, v, "machine", t->machine, "%s", model ? "missing: a machine of 'quire machine list'" : "only for a model");
	if (model) {
		if (machine_desc_find(t->machine, &d, why, sizeof(why)))
			return fail(r, v, "machine", t->machine, "a machine of 'quire machine list'");
		machine_desc_done(&d);
	}
	return 0;
}

static int case_apart(struct reader *r, const char *name, const yaml_node_t *v, void *base)
{
	struct experiment_case *c = base;

	if (!strcmp(name, "figures"))
		return read_figures(r, v, c);
	if (!strcmp(name, "model"))
		return read_trial(r, v, name, true, &c->model);
	if (!strcmp(name, "host"))
		return read_trial(r, v, name, false, &c->host);
	return 1;
}

/* Values of the knob, the workload's name, and that figures are of sides that there are. */
static int check_case(struct reader *r, const yaml_node_t *at, const struct experiment_case *c)
{
	struct knobs scratch;
	char text[200], why[300];

	knobs_default(&scratch);
	if (!workload_find(c->workload))
		return fail(r, at, "workload", c->workload, "one of 'quire workload list'");
	for (uint32_t i = 0; i <= c->nr_with; i++) {
		snprintf(text, sizeof(text), "%s=%s", c->knob, i ? c->with[i - 1] : c->base);
		if (settings_apply(&scratch, i ? "with" : "base", text, why, sizeof(why)))
			return fail(r, at, "knob", NULL, "%s", why);
	}
	if (!c->model.on && !c->host.on)
		return fail(r, at, "model", NULL, "missing: model, host or both");
	for (uint32_t i = 0; i < c->nr_figures; i++)
		if (c->figures[i].with >= c->nr_with)
			return fail(r, at, "of", NULL, "there is no value %u in `with`", c->figures[i].with + 1);
	return 0;
}

static int top_apart(struct reader *r, const char *name, const yaml_node_t *v, void *base)
{
	struct experiment *e = base;
	int rc;

	if (strcmp(name, "cases") != 0)
		return 1;
	rc = list_of(r, v, "cases", EXPERIMENT_MAX_CASES, sizeof(*e->cases), &e->cases, &e->nr_cases);
	for (uint32_t i = 0; !rc && i < e->nr_cases; i++) {
		const yaml_node_t *n = node(r, v->data.sequence.items.start[i]);

		e->cases[i].tolerance = 0.02;
		rc = read_mapping(r, n, "cases", case_keys, &e->cases[i], case_apart);
		if (!rc)
			rc = check_case(r, n, &e->cases[i]);
	}
	return rc;
}

/* ---- the file ---- */

/* Aliases would let a small file stand for a large one. */
static int refuse_aliases(struct reader *r, const char *text, size_t len)
{
	yaml_parser_t p;
	yaml_event_t ev;
	bool end = false;
	int rc = 0;

	if (!yaml_parser_initialize(&p))
		return -ENOMEM;
	yaml_parser_set_input_string(&p, (const unsigned char *)text, len);
	while (!rc && !end && yaml_parser_parse(&p, &ev)) {
		end = ev.type == YAML_STREAM_END_EVENT;
		if (ev.type == YAML_ALIAS_EVENT) {
			snprintf(r->err, r->errlen, "%s:%zu:%zu: aliases (*name) are not allowed", r->file, ev.start_mark.line + 1,
				 ev.start_mark.column + 1);
			rc = -EINVAL;
		}
		yaml_event_delete(&ev);
	}
	if (!rc && !end) {
		snprintf(r->err, r->errlen, "%s:%zu:%zu: not YAML: %s", r->file, p.problem_mark.line + 1, p.problem_mark.column + 1,
			 p.problem ? p.problem : "cannot be read");
		rc = -EINVAL;
	}
	yaml_parser_delete(&p);
	return rc;
}

static int name_of(const char *file, char **ret)
{
	const char *slash = strrchr(file, '/'), *from = slash ? slash + 1 : file;
	size_t n = strlen(from);

	if (n > 5 && !strcmp(from + n - 5, ".yaml"))
		n -= 5;
	*ret = strndup(from, n);
	return *ret ? 0 : -ENOMEM;
}

int experiment_parse(const char *file, const char *text, size_t len, struct experiment *ret, char *err, size_t errlen)
{
	struct reader r = { .file = file, .err = err, .errlen = errlen };
	const yaml_node_t *root;
	yaml_parser_t p;
	int rc;

	*ret = (struct experiment){ 0 };
	if (len > MAX_FILE) {
		snprintf(err, errlen, "%s:1:1: larger than %u bytes", file, MAX_FILE);
		return -EINVAL;
	}
	rc = refuse_aliases(&r, text, len);
	if (rc)
		return rc;
	if (!yaml_parser_initialize(&p))
		return -ENOMEM;
	yaml_parser_set_input_string(&p, (const unsigned char *)text, len);
	if (!yaml_parser_load(&p, &r.doc)) {
		snprintf(err, errlen, "%s:%zu:%zu: not YAML: %s", file, p.problem_mark.line + 1, p.problem_mark.column + 1,
			 p.problem ? p.problem : "cannot be read");
		yaml_parser_delete(&p);
		return -EINVAL;
	}
	root = yaml_document_get_root_node(&r.doc);
	rc = root ? read_mapping(&r, root, "experiment", top_keys, ret, top_apart) : fail(&r, NULL, NULL, NULL, "an empty file");
	if (!rc)
		rc = name_of(file, &ret->name);
	if (rc == -ENOMEM)
		snprintf(err, errlen, "out of memory");
	yaml_document_delete(&r.doc);
	yaml_parser_delete(&p);
	if (rc)
		experiment_done(ret);
	return rc;
}

static int read_file(const char *path, struct experiment *ret, char *err, size_t errlen)
{
	char *text = malloc(MAX_FILE + 1);
	FILE *f = text ? fopen(path, "re") : NULL;
	size_t n;
	int rc;

	if (!f) {
		rc = text ? -errno : -ENOMEM;
		snprintf(err, errlen, "%s: %s", path, strerror(-rc));
		free(text);
		return rc;
	}
	n = fread(text, 1, MAX_FILE + 1, f);
	rc = ferror(f) ? -EIO : 0;
	fclose(f);
	if (rc)
		snprintf(err, errlen, "%s: cannot be read", path);
	else
		rc = experiment_parse(path, text, n, ret, err, errlen);
	free(text);
	return rc;
}

int experiment_find(const char *name, struct experiment *ret, char *err, size_t errlen)
{
	size_t n = strlen(name);

	*ret = (struct experiment){ 0 };
	if (strchr(name, '/') || (n > 5 && !strcmp(name + n - 5, ".yaml")))
		return read_file(name, ret, err, errlen);
	for (const struct experiment_file *f = experiment_files; f->name; f++)
		if (!strcmp(f->name, name)) {
			char file[128];

			snprintf(file, sizeof(file), "%s.yaml", name);
			return experiment_parse(file, f->text, strlen(f->text), ret, err, errlen);
		}
	snprintf(err, errlen, "no such experiment: %s ('quire experiment list' shows them)", name);
	return -ENOENT;
}

static void case_done(struct experiment_case *c)
{
	free(c->name);
	free(c->note);
	free(c->workload);
	free(c->knob);
	free(c->base);
	free(c->model.machine);
	free(c->host.machine);
	for (uint32_t i = 0; i < EXPERIMENT_MAX_WITH; i++)
		free(c->with[i]);
	for (uint32_t i = 0; i < EXPERIMENT_MAX_SETTINGS; i++)
		free(c->settings[i]);
	for (uint32_t i = 0; c->figures && i < c->nr_figures; i++) {
		free(c->figures[i].metric);
		free(c->figures[i].as);
	}
	free(c->figures);
}

void experiment_done(struct experiment *e)
{
	for (uint32_t i = 0; e->cases && i < e->nr_cases; i++)
		case_done(&e->cases[i]);
	free(e->cases);
	free(e->name);
	free(e->title);
	free(e->source);
	free(e->scale_rule);
	free(e->explains);
	*e = (struct experiment){ 0 };
}
