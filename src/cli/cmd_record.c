/* quire record: run a program under the recorder and keep what it did with its memory in a file. */
#include "cli/cli.h"
#include "cli/common.h"
#include "record/record.h"
#include "report/json.h"
#include "report/units.h"
#include "trace/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Bytes a reference in a recording: sorting and SQLite take 0.4 to 0.6, random loads 4 (tests/bench/bench_trace.c). */
#define TYPICAL_MILLI_BYTES 600ULL
#define LOW_DISK (1ULL << 30)

static const struct opt_help help = {
	.usage = "quire record [OPTIONS] -o FILE.qtr -- PROGRAM [ARGUMENTS]",
	.text = "Runs a program, with its threads and children, under the recorder. Its input and output are its own;\n"
		"Ctrl-C ends it and keeps what there is. The file replaces an older one only when it is complete.\n\n"
		"  quire record -o redis.qtr -- redis-server --save ''\n",
};

struct recording {
	const char *out, *json;
	struct trace_writer *w;
	struct progress line;
	uint64_t free_bytes;
};

static void show_progress(void *arg, uint64_t refs, uint64_t ns, unsigned streams)
{
	struct recording *r = arg;
	char size[UNIT_MAX], room[UNIT_MAX], t[24];

	unit_format(size, STYLE_BYTES, trace_writer_bytes(r->w), 0);
	unit_format(room, STYLE_BYTES, r->free_bytes, 0);
	format_duration(t, ns);
	progress_line(&r->line, "%s  %.1f M references, %.1f M/s, %u threads, %s of %s", t, (double)refs / 1e6,
		      ns ? (double)refs * 1e3 / (double)ns : 0.0, streams, size, room);
}

static uint64_t output_bytes(void *arg)
{
	return trace_writer_bytes(arg);
}

/* Say how far the disk reaches before anything starts. */
static void estimate(struct recording *r)
{
	uint64_t total;
	char room[UNIT_MAX], refs[UNIT_MAX];

	if (trace_disk_room(r->out, &r->free_bytes, &total))
		return;
	unit_format(room, STYLE_BYTES, r->free_bytes, 0);
	unit_format(refs, STYLE_COUNT, (uint64_t)((unsigned __int128)r->free_bytes * 1000 / TYPICAL_MILLI_BYTES), 0);
	if (r->line.on || r->free_bytes < LOW_DISK)
		fprintf(stderr,
			"quire: %s: %s free: room for about %s references (0.6 bytes each, as programs typically "
			"take)\n",
			r->out, room, refs);
}

static void summary(const struct recording *r, const struct record_result *res, uint64_t bytes)
{
	const uint64_t threads = res->streams - res->execs;
	char refs[32], insns[32], size[UNIT_MAX];

	unit_grouped(refs, res->refs);
	unit_grouped(insns, res->insns);
	unit_format(size, STYLE_BYTES, bytes, 0);
	fprintf(stderr,
		"quire: %s: %s references, %s instructions, %" PRIu64 " system calls, %" PRIu64 " thread%s in %" PRIu64
		" process%s, %s\n",
		r->out, refs, insns, res->syscalls, threads, threads == 1 ? "" : "s", res->processes, res->processes == 1 ? "" : "es",
		size);
	if (res->signal)
		fprintf(stderr, "quire: the program was ended by signal %d (%s)\n", res->signal,
			strsignal(res->signal));
	else if (res->exit_status)
		fprintf(stderr, "quire: the program ended with status %d\n", res->exit_status);
	if (res->stopped)
		fprintf(stderr, "quire: interrupted; what was recorded until then is kept\n");
	if (res->note[0])
		fprintf(stderr, "quire: %s\n", res->note);
}

static json_t *result_json(const struct recording *r, const struct record_result *res, const char *command,
			   uint64_t bytes)
{
	json_t *root = report_json("record");

	if (json_object_set_new(root, "trace",
				json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "file", report_json_text(r->out), "program",
					  report_json_text(command), "references", report_json_u64(res->refs), "instructions",
					  report_json_u64(res->insns), "syscalls", report_json_u64(res->syscalls), "threads",
					  report_json_u64(res->streams - res->execs), "processes", report_json_u64(res->processes),
					  "threads_lost", report_json_u64(res->lost), "bytes", report_json_u64(bytes))) ||
	    json_object_set_new(root, "program",
				json_pack("{s:i, s:i, s:b, s:o}", "exit_status", res->exit_status, "signal", res->signal,
					  "stopped", res->stopped, "note", report_json_text(res->note)))) {
		json_decref(root);
		return NULL;
	}
	return root;
}

static void join_command(char *const *argv, char *buf, size_t len)
{
	size_t at = 0;

	buf[0] = 0;
	for (size_t i = 0; argv[i] && at < len; i++)
		at += (size_t)snprintf(buf + at, len - at, "%s%s", i ? " " : "", argv[i]);
}

static int record(struct recording *r, char *const *argv, struct output *json)
{
	char command[2048], dir[1024], err[300] = "";
	const struct trace_meta meta = {
		.command = command,
		.recorder = "quire " QUIRE_VERSION,
		.start_unix_ns = (uint64_t)time(NULL) * 1000000000ULL,
	};
	struct record_options o = {
		.argv = argv, .stop = &interrupted, .output_bytes = output_bytes, .output_dir = dir
	};
	struct record_result res = { 0 };
	uint64_t bytes;
	int rc, code = EXIT_DONE;

	join_command(argv, command, sizeof(command));
	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(r->out, '/') ? strrchr(r->out, '/') - r->out + 1 : 1),
		 strrchr(r->out, '/') ? r->out : ".");
	if (trace_writer_create(r->out, &meta, &r->w, err, sizeof(err)))
		return failure("%s", err);
	o.output_arg = r->w;
	if (r->line.on) {
		o.progress = show_progress;
		o.progress_arg = r;
	}
	estimate(r);
	signals_catch();
	rc = record_run(&o, trace_writer_sink(r->w), &res, err, sizeof(err));
	progress_clear(&r->line);
	if (rc) {
		/* A Ctrl-C ends the emulator too, which is then no reason to complain about it. */
		code = failure("%s", interrupted && !res.refs ? "interrupted before the program began" : err);
		if (!res.refs) { /* it never ran: leave the file that may be there */
			trace_writer_abort(r->w);
			return code;
		}
	}
	bytes = trace_writer_bytes(r->w);
	if (trace_writer_close(r->w, err, sizeof(err)))
		code = failure("%s", err);
	summary(r, &res, bytes);
	rc = json_end(json, json->f ? result_json(r, &res, command, bytes) : NULL);
	return code ? code : rc;
}

static int run(int argc, char **argv)
{
	struct recording r = { 0 };
	struct opt_list operands = { 0 };
	struct output json;
	char **program, err[300];
	int code;
	const struct opt opts[] = {
		{ "output", 'o', OPT_TEXT, &r.out, 0, 0, "FILE", "the recording to write" },
		{ "json", 'j', OPT_TEXT, &r.json, 0, 0, "FILE", "write a summary as JSON too; - is standard output" },
		{ 0 },
	};

	code = opt_parse(argc, argv, opts, &help, &operands, &program);
	if (code >= 0)
		return code;
	if (operands.nr)
		return usage_error("record", "the program goes after --: quire record -o FILE.qtr -- %s ...",
				   operands.v[0]);
	if (!program || !program[0])
		return usage_error("record", "no program: quire record -o FILE.qtr -- PROGRAM ...");
	if (!r.out)
		return usage_error("record", "where to? -o FILE.qtr");
	if (r.json && !strcmp(r.json, r.out))
		return usage_error("record", "-o and --json name the same file: %s", r.out);
	if (record_check(err, sizeof(err)))
		return failure("%s", err);
	code = json_begin(&json, r.json);
	if (code >= 0)
		return code;
	progress_init(&r.line);
	code = record(&r, program, &json);
	output_abort(&json);
	return code;
}

const struct command cmd_record = { .name = "record",
				    .help = "record what a program does with its memory",
				    .run = run };
