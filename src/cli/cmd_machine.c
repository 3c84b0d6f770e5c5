/* quire machine: the machines that can be modelled, and maps of memory of real ones (cmd_machine_map.c). */
#include "cli/cli.h"
#include "cli/common.h"
#include "report/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct opt_help help = {
	.usage = "quire machine list [OPTIONS]\n       quire machine show [OPTIONS] NAME|FILE\n"
		 "       quire machine map [OPTIONS] [IOMEM [ZONEINFO]]",
	.text = "list: the machines that come with quire, the one most like this computer marked with a *.\n"
		"show: the description of one, a file that can be changed and given to --machine.\n"
		"map: the map of memory in a copy of /proc/iomem, which quire run boot --map takes too, with nodes\n"
		"and zones from a copy of /proc/zoneinfo; without files this computer's, whose addresses only root\n"
		"may read.\n",
};

struct listing {
	FILE *f;
	json_t *list;
};

static int list_one(void *arg, const char *name, const char *title)
{
	struct listing *l = arg;

	fprintf(l->f, "%c %-22s %s\n", strcmp(name, machine_desc_default()) ? ' ' : '*', name, title);
	json_array_append_new(l->list, json_pack("{s:s, s:s}", "name", name, "title", title));
	return 0;
}

static int list(const char *json_path, struct output *out)
{
	struct listing l = { text_stream(json_path), json_array() };
	json_t *root = report_json("machine list");

	machine_desc_list(list_one, &l);
	json_object_set_new(root, "machines", l.list);
	json_object_set_new(root, "default", json_string(machine_desc_default()));
	return json_end(out, root);
}

static int print_file(const char *path, FILE *to)
{
	FILE *f = fopen(path, "re");
	char buf[4096];
	size_t n;

	if (!f)
		return failure("%s: %s", path, strerror(errno));
	while ((n = fread(buf, 1, sizeof(buf), f)))
		fwrite(buf, 1, n, to);
	fclose(f);
	return EXIT_DONE;
}

static json_t *describe(const struct machine_desc *d)
{
	json_t *nodes = json_array();

	for (uint32_t i = 0; i < d->nr_nodes; i++)
		json_array_append_new(nodes,
				      json_pack("{s:o, s:i, s:o, s:o}", "memory_bytes",
						report_json_u64(d->nodes[i].memory), "socket", (int)d->nodes[i].socket,
						"read_latency_ps", report_json_u64(d->nodes[i].read_latency_ps),
						"read_bw_MBps", report_json_u64(d->nodes[i].read_bw_MBps)));
	return json_pack("{s:s, s:s, s:s, s:s*, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o}", "name", d->name, "kind",
			 "model", "title", d->title, "source", d->source, "sockets", (int)d->sockets,
			 "cores_per_socket", (int)d->cores_per_socket, "threads_per_core", (int)d->threads_per_core,
			 "freq_khz", (int)d->freq_khz, "l1d_bytes", report_json_u64(d->l1d.size), "l2_bytes",
			 report_json_u64(d->l2.size), "llc_bytes", report_json_u64(d->llc.size), "nodes", nodes);
}

static int show(const char *name, const char *json_path, struct output *out)
{
	const char *text = machine_desc_text(name);
	struct machine_desc d;
	json_t *root;
	int code = machine_get(name, &d);

	if (code >= 0)
		return code;
	if (text)
		fputs(text, text_stream(json_path));
	else
		code = print_file(name, text_stream(json_path));
	root = report_json("machine show");
	json_object_set_new(root, "machine", describe(&d));
	machine_desc_done(&d);
	if (code > EXIT_DONE) {
		json_decref(root);
		return code;
	}
	return json_end(out, root);
}

static const struct {
	const char *name, *wrong;
	unsigned least, most; /* arguments, itself included */
} verbs[] = {
	{ "list", "list takes no name", 1, 1 },
	{ "show", "show takes one name", 2, 2 },
	{ "map", "map takes a copy of /proc/iomem and one of /proc/zoneinfo, or less", 1, 3 },
};

static const char *verb_name(const void *arg, size_t i)
{
	(void)arg;
	return verbs[i].name;
}

static int run(int argc, char **argv)
{
	const char *json = NULL, *near;
	struct opt_list args = { 0 };
	struct output out;
	size_t verb = 0;
	char **rest;
	int code;
	const struct opt opts[] = {
		{ "json", 'j', OPT_TEXT, &json, 0, 0, "FILE", "write it as JSON too; - is standard output" },
		{ 0 },
	};

	code = opt_parse(argc, argv, opts, &help, &args, &rest);
	if (code >= 0)
		return code;
	if (!args.nr)
		return usage_error("machine", "list, map or show NAME?");
	while (verb < ARRAY_SIZE(verbs) && strcmp(args.v[0], verbs[verb].name))
		verb++;
	if (verb == ARRAY_SIZE(verbs)) {
		near = nearest(args.v[0], ARRAY_SIZE(verbs), verb_name, NULL);
		return usage_error("machine", "list, show or map, not %s%s%s%s", args.v[0], near ? "; did you mean " : "",
				   near ? near : "", near ? "?" : "");
	}
	if (args.nr < verbs[verb].least || args.nr > verbs[verb].most)
		return usage_error("machine", "%s", verbs[verb].wrong);
	code = json_begin(&out, json);
	if (code >= 0)
		return code;
	if (verb == 2)
		code = machine_map(args.nr > 1 ? args.v[1] : NULL, args.nr > 2 ? args.v[2] : NULL, json, &out);
	else
		code = verb ? show(args.v[1], json, &out) : list(json, &out);
	output_abort(&out);
	return code;
}

const struct command cmd_machine = { .name = "machine",
				     .help = "list or show the machines that can be modelled",
				     .run = run };
