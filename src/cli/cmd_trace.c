/* quire trace: what is in a recording, and making one from other tools' text. */
#include "cli/cli.h"
#include "cli/common.h"
#include "report/json.h"
#include "report/table.h"
#include "report/units.h"
#include "trace/check.h"
#include "trace/import.h"
#include "trace/info.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SHOWN_STREAMS 20

static const struct opt_help help = {
	.usage = "quire trace info [OPTIONS] FILE\n       quire trace import [OPTIONS] -o FILE.qtr TEXT",
	.text = "info: what a recording holds, by thread; --verify reads and checks every block.\n"
		"import: make a recording from text (- is standard input), in one of these formats:\n"
		"  lackey   the output of valgrind --tool=lackey --trace-mem=yes\n"
		"  text     lines of 'R ADDRESS SIZE' and 'W ADDRESS SIZE', address in hexadecimal\n",
};

struct trace_args {
	const char *json, *out, *format;
	bool verify;
	struct opt_list operands;
};

static json_t *stream_json(const struct trace_info_stream *s)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "stream", report_json_u64(s->stream), "references",
			 report_json_u64(s->refs), "instructions", report_json_u64(s->insns), "words",
			 report_json_u64(s->words), "blocks", report_json_u64(s->blocks), "bytes",
			 report_json_u64(s->bytes));
}

static json_t *info_json(const char *path, const struct trace_info *i)
{
	json_t *root = report_json("trace info"), *streams = json_array();

	for (uint32_t k = 0; k < i->nr_streams; k++)
		json_array_append_new(streams, stream_json(&i->streams[k]));
	if (json_object_set_new(root, "trace",
				json_pack("{s:o, s:i, s:o*, s:o*, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:o*}", "file", report_json_text(path),
					  "version", (int)i->version, "program", i->command ? report_json_text(i->command) : NULL,
					  "recorder", i->recorder ? report_json_text(i->recorder) : NULL, "file_bytes",
					  report_json_u64(i->file_bytes), "references", report_json_u64(i->refs), "instructions",
					  report_json_u64(i->insns), "blocks", report_json_u64(i->blocks), "words",
					  report_json_u64(i->words), "indexed", i->indexed, "damaged", i->damaged, "damage",
					  i->damaged ? report_json_text(i->error) : NULL))) {
		json_decref(root);
		json_decref(streams);
		return NULL;
	}
	json_object_set_new(root, "streams", streams);
	if (i->deep) {
		json_t *words = json_object();

		for (unsigned t = 0; t < NR_WORD_TYPES; t++)
			json_object_set_new(words, trace_word_name(t), report_json_u64(i->words_by_type[t]));
		json_object_set_new(words, "load", report_json_u64(i->loads));
		json_object_set_new(words, "store", report_json_u64(i->stores));
		json_object_set_new(root, "counts", words);
	}
	return root;
}

static void print_streams(FILE *f, const struct trace_info *i)
{
	struct table t;
	uint32_t n = MIN(i->nr_streams, (uint32_t)SHOWN_STREAMS);

	table_init(&t, 5);
	table_cell(&t, "thread");
	table_cell(&t, "references");
	table_cell(&t, "instructions");
	table_cell(&t, "blocks");
	table_cell(&t, "bytes");
	for (uint32_t k = 0; k < n; k++) {
		const struct trace_info_stream *s = &i->streams[k];
		const uint64_t v[] = { s->stream, s->refs, s->insns, s->blocks, s->bytes };

		for (size_t c = 0; c < ARRAY_SIZE(v); c++) {
			char buf[32];

			unit_grouped(buf, v[c]);
			table_cell(&t, buf);
		}
	}
	fputc('\n', f);
	table_print(&t, f, TABLE_WIDTH, want_bold(fileno(f)));
	if (n < i->nr_streams)
		fprintf(f, "and %" PRIu32 " more threads\n", i->nr_streams - n);
	table_done(&t);
}

static void print_info(FILE *f, const char *path, const struct trace_info *i)
{
	char a[32], b[32], size[UNIT_MAX];
	time_t start = (time_t)(i->start_unix_ns / 1000000000ULL);
	char when[64] = "";
	struct tm tm;

	unit_format(size, STYLE_BYTES, i->file_bytes, 0);
	fprintf(f, "%s: recording, version %u, %s%s\n", path, i->version, size, i->indexed ? "" : ", without an index");
	if (i->command)
		fprintf(f, "program:      %s\n", i->command);
	if (i->recorder)
		fprintf(f, "recorded by:  %s\n", i->recorder);
	if (start && localtime_r(&start, &tm) && strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm))
		fprintf(f, "recorded at:  %s\n", when);
	unit_grouped(a, i->refs);
	unit_grouped(b, i->insns);
	fprintf(f, "references:   %s (instructions: %s)\n", a, b);
	unit_grouped(a, i->words);
	unit_grouped(b, i->blocks);
	fprintf(f, "words:        %s in %s blocks, %.3f bytes each\n", a, b,
		i->words ? (double)i->bytes / (double)i->words : 0.0);
	fprintf(f, "threads:      %" PRIu32 "\n", i->nr_streams);
	if (i->deep) {
		unit_grouped(a, i->loads);
		unit_grouped(b, i->stores);
		fprintf(f, "verified:     %s loads, %s stores", a, b);
		for (unsigned t = 0; t < NR_WORD_TYPES; t++)
			if (i->words_by_type[t])
				fprintf(f, ", %" PRIu64 " %s", i->words_by_type[t], trace_word_name(t));
		fputc('\n', f);
	}
	if (i->damaged)
		fprintf(f, "DAMAGED:      %s\n", i->error);
	if (i->nr_streams)
		print_streams(f, i);
}

static int info(const struct trace_args *a, struct output *out)
{
	const char *path = a->operands.v[1];
	struct trace_info i;
	char err[300];
	int code;

	if (trace_info_read(path, a->verify, &i, err, sizeof(err)))
		return failure("%s", err);
	print_info(text_stream(a->json), path, &i);
	code = json_end(out, out->f ? info_json(path, &i) : NULL);
	if (i.damaged && code == EXIT_DONE)
		code = EXIT_FAILED;
	trace_info_done(&i);
	return code;
}

static int import(const struct trace_args *a, struct output *out)
{
	enum trace_import_format format = IMPORT_AUTO;
	struct trace_import_result r;
	char refs[32], insns[32], size[UNIT_MAX], err[300];
	json_t *root;

	if (!a->out)
		return usage_error("trace", "import needs -o FILE.qtr");
	if (a->format && !strcmp(a->format, "lackey"))
		format = IMPORT_LACKEY;
	else if (a->format && !strcmp(a->format, "text"))
		format = IMPORT_TEXT;
	else if (a->format)
		return usage_error("trace", "--format %s: allowed are lackey and text", a->format);
	signals_catch();
	if (trace_import(a->operands.v[1], format, a->out, &interrupted, &r, err, sizeof(err)))
		return failure("%s", err);
	unit_grouped(refs, r.refs);
	unit_grouped(insns, r.insns);
	unit_format(size, STYLE_BYTES, r.bytes, 0);
	fprintf(text_stream(a->json), "%s: %s references, %s instructions, %" PRIu64 " areas of %s together\n", a->out,
		refs, insns, r.areas, size);
	root = report_json("trace import");
	json_object_set_new(root, "trace",
			    json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o}", "file", report_json_text(a->out), "format",
				      r.format == IMPORT_LACKEY ? "lackey" : "text", "lines", report_json_u64(r.lines),
				      "references", report_json_u64(r.refs), "instructions", report_json_u64(r.insns),
				      "areas", report_json_u64(r.areas), "area_bytes", report_json_u64(r.bytes)));
	return json_end(out, root);
}

static const char *verb_name(const void *arg, size_t i)
{
	(void)arg;
	return i ? "import" : "info";
}

static int run(int argc, char **argv)
{
	struct trace_args a = { 0 };
	struct output out;
	const char *near;
	char **rest;
	bool is_info;
	int code;
	const struct opt opts[] = {
		{ "verify", 0, OPT_FLAG, &a.verify, 0, 0, NULL, "info: read and check every block" },
		{ "output", 'o', OPT_TEXT, &a.out, 0, 0, "FILE", "import: the recording to write" },
		{ "format", 'f', OPT_TEXT, &a.format, 0, 0, "lackey|text",
		  "import: what the text is; default: seen from its first line" },
		{ "json", 'j', OPT_TEXT, &a.json, 0, 0, "FILE", "write the result as JSON too; - is standard output" },
		{ 0 },
	};

	code = opt_parse(argc, argv, opts, &help, &a.operands, &rest);
	if (code >= 0)
		return code;
	if (!a.operands.nr)
		return usage_error("trace", "info or import?");
	is_info = !strcmp(a.operands.v[0], "info");
	if (!is_info && strcmp(a.operands.v[0], "import")) {
		near = nearest(a.operands.v[0], 2, verb_name, NULL);
		return usage_error("trace", "info or import, not %s%s%s%s", a.operands.v[0],
				   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	}
	if (a.operands.nr != 2)
		return usage_error("trace", "%s takes one file", a.operands.v[0]);
	code = json_begin(&out, a.json);
	if (code >= 0)
		return code;
	code = is_info ? info(&a, &out) : import(&a, &out);
	output_abort(&out);
	return code;
}

const struct command cmd_trace = { .name = "trace", .help = "what a recording holds; make one from text", .run = run };
