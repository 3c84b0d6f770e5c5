/*
 * A machine file's YAML, read event by event: values are collected by key together with their places, so that every complaint, even
 * one that comes up later, can name line and column.
 *
 * What is bounded: the file (the caller reads at most DESC_MAX_FILE bytes), nesting (three levels, by the keys themselves), nodes.
 * Anchors and aliases are refused, so nothing can expand. Keys are found in the tables of desc_keys.h and nowhere else.
 */
#include "machine/desc_int.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define MAX_PATH 96

struct parse {
	struct desc_reader *r;
	yaml_parser_t yaml;
	yaml_event_t event;
	bool have_event;
};

/* ---- complaints ---- */

static bool is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

/* A value as it may be shown: one line, short, printable. */
static void show(const char *value, char *buf, size_t len)
{
	size_t n = 0;

	for (; *value && n + 4 < len; value++)
		buf[n++] = is_control(*value) ? ' ' : *value;
	if (*value) {
		/* Never end in the middle of a UTF-8 sequence. */
		while (n && ((unsigned char)value[0] & 0xc0) == 0x80) {
			n--;
			value--;
		}
		memcpy(buf + n, "...", 3);
		n += 3;
	}
	buf[n] = '\0';
}

int desc_fail(struct desc_reader *r, struct desc_place at, const char *key, const char *value, const char *allowed, ...)
{
	char shown[48];
	size_t n = 0;
	va_list ap;

#define APPEND(...) (n += n < r->errlen ? (size_t)snprintf(r->err + n, r->errlen - n, __VA_ARGS__) : 0)
	APPEND("%s:%u:%u: ", r->file, at.line ? at.line : 1, at.line ? at.col : 1);
	if (key)
		APPEND("%s: ", key);
	if (value) {
		show(value, shown, sizeof(shown));
		APPEND("%s: ", shown);
	}
#undef APPEND
	va_start(ap, allowed);
	if (n < r->errlen)
		vsnprintf(r->err + n, r->errlen - n, allowed, ap);
	va_end(ap);
	/* Keys are the file's too, and a file is anybody's: nothing of it ends the line or talks to the terminal. */
	for (char *c = r->err; *c; c++)
		if (is_control(*c))
			*c = ' ';
	return -EINVAL;
}

static struct desc_place place(yaml_mark_t m)
{
	return (struct desc_place){ .line = (uint32_t)m.line + 1, .col = (uint32_t)m.column + 1 };
}

static struct desc_place here(const struct parse *p)
{
	return place(p->event.start_mark);
}

/* ---- events ---- */

static int next_event(struct parse *p)
{
	if (p->have_event)
		yaml_event_delete(&p->event);
	p->have_event = false;
	if (!yaml_parser_parse(&p->yaml, &p->event)) {
		struct desc_place at = place(p->yaml.problem_mark);

		if (p->yaml.error == YAML_MEMORY_ERROR)
			return -ENOMEM;
		if (p->yaml.error == YAML_READER_ERROR)
			at = (struct desc_place){ 0 };
		return desc_fail(p->r, at, NULL, NULL, "not YAML: %s", p->yaml.problem ? p->yaml.problem : "cannot be read");
	}
	p->have_event = true;
	if (p->event.type == YAML_ALIAS_EVENT)
		return desc_fail(p->r, here(p), NULL, NULL, "aliases (*name) are not allowed in machine files");
	if ((p->event.type == YAML_SCALAR_EVENT && p->event.data.scalar.anchor) ||
	    (p->event.type == YAML_MAPPING_START_EVENT && p->event.data.mapping_start.anchor) ||
	    (p->event.type == YAML_SEQUENCE_START_EVENT && p->event.data.sequence_start.anchor))
		return desc_fail(p->r, here(p), NULL, NULL, "anchors (&name) are not allowed in machine files");
	return 0;
}

static const char *scalar(const struct parse *p)
{
	return (const char *)p->event.data.scalar.value;
}

/* Keep the current scalar. NUL bytes inside ("\0" in a quoted string) would hide what follows. */
static int keep_scalar(struct parse *p, const char *key, char **ret)
{
	if (strlen(scalar(p)) != p->event.data.scalar.length)
		return desc_fail(p->r, here(p), key, NULL, "a NUL character is not allowed");
	*ret = strdup(scalar(p));
	return *ret ? 0 : -ENOMEM;
}

/* ---- keys ---- */

/* Does path name the section `prefix`, or something in it? */
static bool in_section(const char *path, const char *prefix)
{
	size_t n = strlen(prefix);

	return !strncmp(path, prefix, n) && path[n] == '.';
}

/* Letters to insert, delete or change from a to b; both at most 31 long, else far. */
static unsigned edit_distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned row[32];

	if (la > 31 || lb > 31)
		return 99;
	for (unsigned j = 0; j <= lb; j++)
		row[j] = j;
	for (unsigned i = 1; i <= la; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= lb; j++) {
			unsigned change = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			row[j] = MIN(change, MIN(row[j], row[j - 1]) + 1);
		}
	}
	return row[lb];
}

/* The key at the same level that reads most like `word`; "" when none is near. */
static void nearest_key(const struct desc_key *keys, unsigned nr, const char *prefix, const char *word, char *buf, size_t len)
{
	unsigned best = 3;
	size_t skip = strlen(prefix);

	buf[0] = '\0';
	for (unsigned i = 0; i < nr; i++) {
		char name[MAX_PATH];
		unsigned d;

		if (skip && !in_section(keys[i].path, prefix))
			continue;
		snprintf(name, sizeof(name), "%s", keys[i].path + (skip ? skip + 1 : 0));
		name[strcspn(name, ".")] = '\0';
		d = edit_distance(word, name);
		if (d < best) {
			best = d;
			snprintf(buf, len, "; did you mean %s?", name);
		}
	}
}

static int unknown_key(struct parse *p, const struct desc_key *keys, unsigned nr, const char *prefix, const char *shown)
{
	char hint[MAX_PATH + 32];

	nearest_key(keys, nr, prefix, scalar(p), hint, sizeof(hint));
	return desc_fail(p->r, here(p), shown, NULL, "unknown key%s", hint);
}

/* The current event must be the value of key k. */
static int take_scalar(struct parse *p, const struct desc_key *k, const char *shown, struct desc_raw *raw)
{
	char allowed[200];

	if (p->event.type == YAML_SCALAR_EVENT && p->event.data.scalar.length) {
		raw->at = here(p);
		return keep_scalar(p, shown, &raw->text);
	}
	desc_allowed(k, allowed, sizeof(allowed));
	if (p->event.type == YAML_SCALAR_EVENT)
		return desc_fail(p->r, here(p), shown, NULL, "no value: %s", allowed);
	return desc_fail(p->r, here(p), shown, NULL, "a %s: %s",
			 p->event.type == YAML_MAPPING_START_EVENT ? "mapping" : "list", allowed);
}

static int seen_before(struct parse *p, const char *shown, struct desc_place before)
{
	return desc_fail(p->r, here(p), shown, NULL, "given twice, first in line %u", before.line);
}

/* ---- nodes ---- */

static int read_distances(struct parse *p, uint32_t node, const char *shown)
{
	int res;

	if (p->event.type != YAML_SEQUENCE_START_EVENT)
		return desc_fail(p->r, here(p), shown, NULL, "a list of whole numbers such as [10, 21]");
	p->r->node[node].raw[NODE_DISTANCES].at = here(p);
	p->r->node[node].raw[NODE_DISTANCES].text = strdup("[...]");
	if (!p->r->node[node].raw[NODE_DISTANCES].text)
		return -ENOMEM;
	while (!(res = next_event(p)) && p->event.type != YAML_SEQUENCE_END_EVENT) {
		uint32_t n = p->r->node[node].nr_distances;

		if (p->event.type != YAML_SCALAR_EVENT)
			return desc_fail(p->r, here(p), shown, NULL, "a list of whole numbers such as [10, 21]");
		if (n == MACHINE_MAX_NODES)
			return desc_fail(p->r, here(p), shown, NULL, "more than %d distances", MACHINE_MAX_NODES);
		p->r->node[node].distance_at[n] = here(p);
		res = keep_scalar(p, shown, &p->r->node[node].distance[n]);
		if (res)
			return res;
		p->r->node[node].nr_distances++;
	}
	return res;
}

static int read_node(struct parse *p, uint32_t node)
{
	struct desc_reader *r = p->r;
	int res;

	r->node[node].at = here(p);
	while (!(res = next_event(p)) && p->event.type != YAML_MAPPING_END_EVENT) {
		char shown[MAX_PATH];
		unsigned k = 0;

		if (p->event.type != YAML_SCALAR_EVENT)
			return desc_fail(r, here(p), "nodes", NULL, "a key is a word");
		snprintf(shown, sizeof(shown), "nodes[%u].%.40s", node, scalar(p));
		while (k < NR_NODE_KEYS && strcmp(node_keys[k].path, scalar(p)) != 0)
			k++;
		if (k == NR_NODE_KEYS)
			return unknown_key(p, node_keys, NR_NODE_KEYS, "", shown);
		if (r->node[node].raw[k].text)
			return seen_before(p, shown, r->node[node].raw[k].at);
		res = next_event(p);
		if (!res && k == NODE_DISTANCES)
			res = read_distances(p, node, shown);
		else if (!res)
			res = take_scalar(p, &node_keys[k], shown, &r->node[node].raw[k]);
		if (res)
			return res;
	}
	return res;
}

static int read_nodes(struct parse *p)
{
	int res;

	if (p->r->nr_nodes)
		return desc_fail(p->r, here(p), "nodes", NULL, "given twice, first in line %u", p->r->node[0].at.line);
	if (p->event.type != YAML_SEQUENCE_START_EVENT)
		return desc_fail(p->r, here(p), "nodes", NULL, "a list of nodes, each a mapping");
	while (!(res = next_event(p)) && p->event.type != YAML_SEQUENCE_END_EVENT) {
		if (p->event.type != YAML_MAPPING_START_EVENT)
			return desc_fail(p->r, here(p), "nodes", NULL, "a list of nodes, each a mapping");
		if (p->r->nr_nodes == MACHINE_MAX_NODES)
			return desc_fail(p->r, here(p), "nodes", NULL, "more than %d nodes", MACHINE_MAX_NODES);
		res = read_node(p, p->r->nr_nodes++);
		if (res)
			return res;
	}
	return res;
}

/* ---- the rest ---- */

static int read_section(struct parse *p, const char *prefix);

/* The current event is a key in section `prefix` ("" at the top). */
static int read_entry(struct parse *p, const char *prefix)
{
	char path[MAX_PATH];
	unsigned k, section = NR_KEYS;
	int res;

	if (p->event.type != YAML_SCALAR_EVENT)
		return desc_fail(p->r, here(p), prefix[0] ? prefix : NULL, NULL, "a key is a word");
	snprintf(path, sizeof(path), "%s%s%.40s", prefix, prefix[0] ? "." : "", scalar(p));
	if (!strcmp(path, "nodes")) {
		res = next_event(p);
		return res ? res : read_nodes(p);
	}
	/* A key with a point in it ("cpu.sockets: 2" at the top) is not the same as a nested one. */
	if (strchr(scalar(p), '.'))
		return unknown_key(p, desc_keys, NR_KEYS, prefix, path);
	for (k = 0; k < NR_KEYS && strcmp(desc_keys[k].path, path) != 0; k++)
		if (section == NR_KEYS && in_section(desc_keys[k].path, path))
			section = k;
	if (k < NR_KEYS) {
		if (p->r->raw[k].text)
			return seen_before(p, path, p->r->raw[k].at);
		res = next_event(p);
		return res ? res : take_scalar(p, &desc_keys[k], path, &p->r->raw[k]);
	}
	if (section == NR_KEYS)
		return unknown_key(p, desc_keys, NR_KEYS, prefix, path);
	/* cache and cache.l1d begin with the same key: tell them apart by the level, the deeper one is kept one further on. */
	section += prefix[0] != '\0';
	if (p->r->section[section].line)
		return seen_before(p, path, p->r->section[section]);
	p->r->section[section] = here(p);
	res = next_event(p);
	if (res)
		return res;
	if (p->event.type != YAML_MAPPING_START_EVENT)
		return desc_fail(p->r, here(p), path, NULL, "a mapping of keys is expected");
	return read_section(p, path);
}

static int read_section(struct parse *p, const char *prefix)
{
	int res;

	while (!(res = next_event(p)) && p->event.type != YAML_MAPPING_END_EVENT) {
		res = read_entry(p, prefix);
		if (res)
			return res;
	}
	return res;
}

static int read_document(struct parse *p)
{
	int res = next_event(p);

	if (!res)
		res = next_event(p);
	if (res)
		return res;
	if (p->event.type == YAML_STREAM_END_EVENT)
		return desc_fail(p->r, here(p), NULL, NULL, "an empty file");
	res = next_event(p);
	if (res)
		return res;
	if (p->event.type != YAML_MAPPING_START_EVENT)
		return desc_fail(p->r, here(p), NULL, NULL, "not a machine file: it must begin with a key such as 'title:'");
	res = read_section(p, "");
	if (!res)
		res = next_event(p);
	if (!res)
		res = next_event(p);
	if (!res && p->event.type != YAML_STREAM_END_EVENT)
		res = desc_fail(p->r, here(p), NULL, NULL, "a second document; a file describes one machine");
	return res;
}

int desc_read_yaml(struct desc_reader *r, const char *text, size_t len)
{
	struct parse p = { .r = r };
	int res;

	if (memchr(text, '\0', len))
		return desc_fail(r, (struct desc_place){ 0 }, NULL, NULL, "a binary file, not YAML");
	if (!yaml_parser_initialize(&p.yaml))
		return -ENOMEM;
	yaml_parser_set_encoding(&p.yaml, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&p.yaml, (const unsigned char *)text, len);
	res = read_document(&p);
	if (p.have_event)
		yaml_event_delete(&p.event);
	yaml_parser_delete(&p.yaml);
	return res;
}

void desc_reader_free(struct desc_reader *r)
{
	for (unsigned k = 0; k < NR_KEYS; k++)
		free(r->raw[k].text);
	for (uint32_t n = 0; n < r->nr_nodes; n++) {
		for (unsigned k = 0; k < NR_NODE_KEYS; k++)
			free(r->node[n].raw[k].text);
		for (uint32_t i = 0; i < r->node[n].nr_distances; i++)
			free(r->node[n].distance[i]);
	}
}
