/*
 * Importing a text trace in two passes: the first checks every line and finds which memory is touched, the second
 * writes the recording, whose areas have to come first. Input that cannot be read twice is kept in an unlinked
 * temporary file.
 *
 * Touched pages are gathered into at most MAX_AREAS ranges: ranges whose gap is at most `gap` pages are one area, and
 * gap doubles when there would be more. So memory is bounded for any input, and the areas are found in one block.
 */
#include "trace/import.h"

#include "base/compiler.h"
#include "trace/import_int.h"

#include "trace/check.h"
#include "trace/word.h"
#include "trace/writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_AREAS 2048
#define FIRST_GAP 256 /* pages: 1 MiB */
#define MAX_LINE 4096
#define PAGE_BITS 12
#define BUFFER_WORDS 8192
#define BREAK 0x555555559000ULL
#define STACK_POINTER 0x7ffffffde000ULL

struct range {
	uint64_t start, end; /* pages */
};

struct import {
	const char *name; /* of the input, for messages */
	FILE *in, *spool;
	int (*parse)(const char *line, struct import_item *ret, const char **ret_allowed);
	struct trace_import_result *res;
	const volatile bool *stop;
	/* first pass */
	struct range areas[MAX_AREAS + 1];
	size_t nr_areas;
	uint64_t gap;
	/* second pass */
	struct trace_writer *w;
	uint64_t words[BUFFER_WORDS];
	size_t nr;
	uint64_t insns; /* executed since the last word */
	char line[MAX_LINE];
	char *err;
	size_t errlen;
};

const char *import_hex(const char *p, uint64_t *ret)
{
	const char *start;
	uint64_t v = 0;

	if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		p += 2;
	for (start = p;; p++) {
		unsigned c = (unsigned char)*p, d = c - '0' < 10	   ? c - '0'
						    : (c | 0x20) - 'a' < 6 ? (c | 0x20) - 'a' + 10
									   : 16;

		if (d > 15)
			break;
		if (v >> 60)
			return NULL;
		v = v << 4 | d;
	}
	*ret = v;
	return p == start ? NULL : p;
}

const char *import_dec(const char *p, uint64_t *ret)
{
	const char *start = p;
	uint64_t v = 0;

	for (; *p >= '0' && *p <= '9'; p++) {
		v = v * 10 + (uint64_t)(*p - '0');
		if (v > UINT32_MAX)
			return NULL;
	}
	*ret = v;
	return p == start ? NULL : p;
}

int import_check(const struct import_item *it, const char **ret_allowed)
{
	if (!it->size || it->size > IMPORT_MAX_SIZE) {
		*ret_allowed = "a size is 1 to 4096 bytes";
		return -EINVAL;
	}
	if (it->addr > WORD_ADDR_MASK + 1 - it->size) {
		*ret_allowed = "an access lies below address 0x800000000000";
		return -EINVAL;
	}
	return 0;
}

/* ---- areas ---- */

static void areas_widen(struct import *im)
{
	size_t n = 0;

	im->gap *= 2;
	for (size_t i = 1; i < im->nr_areas; i++) {
		if (im->areas[i].start <= im->areas[n].end + im->gap)
			im->areas[n].end = im->areas[i].end;
		else
			im->areas[++n] = im->areas[i];
	}
	im->nr_areas = n + 1;
}

static void areas_add(struct import *im, uint64_t start, uint64_t end)
{
	size_t lo = 0, hi = im->nr_areas, last;

	while (lo < hi) { /* the first range that [start, end) touches or comes before */
		size_t mid = (lo + hi) / 2;

		if (im->areas[mid].end + im->gap < start)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < im->nr_areas && im->areas[lo].start <= start && end <= im->areas[lo].end)
		return;
	for (last = lo; last < im->nr_areas && im->areas[last].start <= end + im->gap; last++) {
		start = MIN(start, im->areas[last].start);
		end = MAX(end, im->areas[last].end);
	}
	memmove(&im->areas[lo + 1], &im->areas[last], (im->nr_areas - last) * sizeof(im->areas[0]));
	im->nr_areas = im->nr_areas + 1 - (last - lo);
	im->areas[lo] = (struct range){ start, end };
	while (im->nr_areas > MAX_AREAS)
		areas_widen(im);
}

/* ---- output ---- */

static int emit(struct import *im, const uint64_t *words, size_t n)
{
	int rc = 0;

	if (im->nr + n > BUFFER_WORDS) {
		rc = trace_writer_block(im->w, 0, im->words, im->nr);
		im->nr = 0;
	}
	memcpy(im->words + im->nr, words, n * sizeof(*words));
	im->nr += n;
	return rc;
}

static int emit_control(struct import *im, enum word_type type, uint64_t arg, const uint64_t *payload, unsigned n)
{
	uint64_t w[16] = { word_control(type, n, arg) };

	memcpy(w + 1, payload, n * sizeof(*payload));
	return emit(im, w, n + 1);
}

static int emit_insns(struct import *im, uint64_t keep)
{
	int rc = 0;

	while (!rc && im->insns > keep) {
		uint64_t n = MIN(im->insns - keep, WORD_INSNS_LONG), w = word_control(W_INSNS, 0, n);

		im->insns -= n;
		rc = emit(im, &w, 1);
	}
	return rc;
}

/* One access: pieces of 1, 2, 4 ... 64 bytes, the first of which carries the instructions. */
static int emit_access(struct import *im, uint64_t addr, uint64_t size, int store)
{
	int rc = 0;

	if (im->insns > WORD_INSNS_MAX)
		rc = emit_insns(im, WORD_INSNS_MAX);
	while (!rc && size) {
		unsigned log2 = size >= 64 ? 6 : 31 - (unsigned)__builtin_clz((unsigned)size);
		uint64_t w = word_ref(addr, log2, store, im->insns);

		rc = emit(im, &w, 1);
		im->insns = 0;
		im->res->refs++;
		addr += 1ULL << log2;
		size -= 1ULL << log2;
	}
	return rc;
}

static int emit_start(struct import *im)
{
	const uint64_t thread[] = { 1, 1, 1, ~0ULL, 0, 0, THREAD_FIRST }, exec[] = { 2, BREAK, STACK_POINTER };
	uint64_t name = 0;
	int rc = emit_control(im, W_THREAD, 0, thread, ARRAY_SIZE(thread));

	memcpy(&name, "import", 6);
	if (!rc)
		rc = emit_control(im, W_EXEC, 0, exec, ARRAY_SIZE(exec));
	if (!rc)
		rc = emit_control(im, W_NAME, 6, &name, 1);
	for (size_t i = 0; !rc && i < im->nr_areas; i++) {
		const uint64_t area[] = { im->areas[i].start << PAGE_BITS,
					  (im->areas[i].end - im->areas[i].start) << PAGE_BITS,
					  3,
					  0,
					  0,
					  0,
					  0 };

		rc = emit_control(im, W_AREA, AREA_ANON, area, ARRAY_SIZE(area));
		im->res->bytes += area[1];
	}
	im->res->areas = im->nr_areas;
	return rc;
}

static int emit_end(struct import *im)
{
	const uint64_t exit[] = { 3, 0 };
	int rc = im->insns ? emit_insns(im, 0) : 0;

	if (!rc)
		rc = emit_control(im, W_EXIT, EXIT_PROCESS, exit, ARRAY_SIZE(exit));
	if (!rc)
		rc = trace_writer_block(im->w, 0, im->words, im->nr);
	return rc;
}

/* ---- reading ---- */

static int bad_line(struct import *im, uint64_t nr, const char *allowed)
{
	char shown[48];
	size_t i = 0;

	for (; i < sizeof(shown) - 1 && im->line[i]; i++)
		shown[i] = im->line[i] >= ' ' && im->line[i] <= '~' ? im->line[i] : '?';
	shown[i] = 0;
	snprintf(im->err, im->errlen, "%s:%" PRIu64 ": '%s': %s", im->name, nr, shown, allowed);
	return -EINVAL;
}

/* Lackey's lines start with valgrind's banner or have a comma; plain ones with R or W. */
static void detect(struct import *im)
{
	const char *l = im->line;
	bool lackey = !strncmp(l, "==", 2) || !strncmp(l, "--", 2) || *l == 'I' || (l[0] == ' ' && strchr(l, ','));

	im->res->format = lackey ? IMPORT_LACKEY : IMPORT_TEXT;
}

static int handle(struct import *im, const struct import_item *it)
{
	int rc = 0;

	if (it->kind == ITEM_NONE)
		return 0;
	if (!im->w) {
		if (it->kind != ITEM_INSN)
			areas_add(im, it->addr >> PAGE_BITS, ((it->addr + it->size - 1) >> PAGE_BITS) + 1);
		return 0;
	}
	/* The plain format knows no instructions: each access is one. */
	if (it->kind == ITEM_INSN || im->res->format == IMPORT_TEXT) {
		im->insns++;
		im->res->insns++;
	}
	if (it->kind == ITEM_LOAD || it->kind == ITEM_MODIFY)
		rc = emit_access(im, it->addr, it->size, 0);
	if (!rc && (it->kind == ITEM_STORE || it->kind == ITEM_MODIFY))
		rc = emit_access(im, it->addr, it->size, 1);
	return rc;
}

static int one_line(struct import *im, uint64_t nr)
{
	const char *allowed;
	struct import_item it;
	size_t len = strlen(im->line);

	if (len == MAX_LINE - 1 && im->line[len - 1] != '\n')
		return bad_line(im, nr, "a line is at most 4094 characters");
	if (im->spool && !im->w && fputs(im->line, im->spool) < 0) {
		snprintf(im->err, im->errlen, "%s: temporary copy: %s", im->name, strerror(errno));
		return -errno;
	}
	while (len && (im->line[len - 1] == '\n' || im->line[len - 1] == '\r'))
		im->line[--len] = 0;
	if (im->res->format == IMPORT_AUTO && len && im->line[0] != '#')
		detect(im);
	im->parse = im->res->format == IMPORT_LACKEY ? import_lackey_line : import_text_line;
	if (im->parse(im->line, &it, &allowed))
		return bad_line(im, nr, allowed);
	return handle(im, &it);
}

static int pass(struct import *im, FILE *f)
{
	uint64_t nr = 0;
	int rc = 0;

	while (!rc && fgets(im->line, MAX_LINE, f)) {
		rc = one_line(im, ++nr);
		if (!(nr & 0xffff) && im->stop && *im->stop) {
			snprintf(im->err, im->errlen, "%s: interrupted", im->name);
			rc = -EINTR;
		}
	}
	if (!rc && ferror(f)) {
		rc = -EIO;
		snprintf(im->err, im->errlen, "%s: %s", im->name, strerror(errno));
	}
	im->res->lines = nr;
	return rc;
}

static int open_input(struct import *im, const char *in)
{
	struct stat st;

	im->in = strcmp(in, "-") ? fopen(in, "re") : stdin;
	if (!im->in || fstat(fileno(im->in), &st)) {
		int e = errno;

		snprintf(im->err, im->errlen, "%s: %s", im->name, strerror(e));
		return -e;
	}
	if (S_ISDIR(st.st_mode)) {
		snprintf(im->err, im->errlen, "%s: %s", im->name, strerror(EISDIR));
		return -EISDIR;
	}
	if (S_ISREG(st.st_mode) && im->in != stdin)
		return 0;
	im->spool = tmpfile();
	if (!im->spool) {
		snprintf(im->err, im->errlen, "%s: temporary copy: %s", im->name, strerror(errno));
		return -errno;
	}
	return 0;
}

/* Before the work of the first pass: can the recording be written at all? */
static int probe_output(struct import *im, const char *out)
{
	struct trace_writer *w;
	int rc = trace_writer_create(out, NULL, &w, im->err, im->errlen);

	if (!rc)
		trace_writer_abort(w);
	return rc;
}

static int write_recording(struct import *im, const char *out)
{
	const struct trace_meta meta = {
		.command = im->name,
		.recorder = im->res->format == IMPORT_LACKEY ? "quire " QUIRE_VERSION " import of valgrind lackey"
							     : "quire " QUIRE_VERSION " import of text",
	};
	FILE *f = im->spool ? im->spool : im->in;
	int rc = trace_writer_create(out, &meta, &im->w, im->err, im->errlen);

	if (rc)
		return rc;
	rewind(f);
	rc = emit_start(im);
	if (!rc)
		rc = pass(im, f);
	if (!rc)
		rc = emit_end(im);
	if (rc) {
		if (!im->err[0])
			snprintf(im->err, im->errlen, "%s: %s", out, strerror(-rc));
		trace_writer_abort(im->w);
		return rc;
	}
	return trace_writer_close(im->w, im->err, im->errlen);
}

int trace_import(const char *in, enum trace_import_format format, const char *out, const volatile bool *stop,
		 struct trace_import_result *ret, char *err, size_t errlen)
{
	struct import *im = calloc(1, sizeof(*im));
	int rc;

	*ret = (struct trace_import_result){ .format = format };
	if (!im) {
		snprintf(err, errlen, "%s: out of memory", in);
		return -ENOMEM;
	}
	err[0] = 0;
	im->name = strcmp(in, "-") ? in : "standard input";
	im->res = ret;
	im->stop = stop;
	im->gap = FIRST_GAP;
	im->err = err;
	im->errlen = errlen;
	rc = open_input(im, in);
	if (!rc)
		rc = probe_output(im, out);
	if (!rc)
		rc = pass(im, im->in);
	if (!rc && !im->nr_areas) {
		snprintf(err, errlen, "%s: no references in it", im->name);
		rc = -ENODATA;
	}
	if (!rc)
		rc = write_recording(im, out);
	if (im->in && im->in != stdin)
		fclose(im->in);
	if (im->spool)
		fclose(im->spool);
	free(im);
	return rc;
}
