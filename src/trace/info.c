/* Reading what a trace file says of itself; with `deep`, every block is read, verified and counted. */
#include "trace/info.h"

#include "base/compiler.h"
#include "trace/file_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy of the value of key in lines of key=value; NULL: not there, or no memory. */
static char *meta_value(const char *meta, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = meta; *p; p += strcspn(p, "\n"), p += *p == '\n')
		if (!strncmp(p, key, n) && p[n] == '=')
			return strndup(p + n + 1, strcspn(p + n + 1, "\n"));
	return NULL;
}

static void count_words(struct trace_info *i, const struct trace_block *b)
{
	for (size_t k = 0; k < b->nr; k++) {
		uint64_t w = b->words[k];

		if (w & WORD_CONTROL) {
			i->words_by_type[word_type(w)]++;
			k += word_payload(w);
		} else if (w & WORD_STORE) {
			i->stores++;
		} else {
			i->loads++;
		}
	}
}

static int read_all(struct trace_info *i, struct trace_source *s)
{
	struct trace_cursor *cur;
	int rc = s->ops->cursor_open(s, &cur);

	if (rc)
		return rc;
	for (uint32_t k = 0; k < i->nr_streams; k++) {
		struct trace_block b;

		while ((rc = s->ops->next(s, cur, i->streams[k].stream, &b)) > 0) {
			count_words(i, &b);
			s->ops->put(s, cur, &b);
		}
		if (rc == -ENOMEM)
			break;
	}
	s->ops->cursor_close(s, cur);
	return rc == -ENOMEM ? rc : 0;
}

static int fill(struct trace_info *i, const struct trace_file *f)
{
	const struct trace_index *x = &f->index;

	*i = (struct trace_info){
		.version = f->head.version,
		.start_unix_ns = f->head.start_unix_ns,
		.file_bytes = f->size,
		.blocks = x->nr_blocks,
		.words = x->words,
		.refs = x->refs,
		.insns = x->insns,
		.bytes = x->bytes,
		.indexed = f->indexed,
		.command = meta_value(f->meta, "command"),
		.recorder = meta_value(f->meta, "recorder"),
	};
	i->streams = calloc(x->nr_streams ? x->nr_streams : 1, sizeof(*i->streams));
	if (!i->streams)
		return -ENOMEM;
	for (uint32_t k = 0; k < x->nr_streams; k++) {
		const struct qtr_stream *s = &x->streams[k].sum;

		if (s->nr_blocks)
			i->streams[i->nr_streams++] = (struct trace_info_stream){
				.stream = k,
				.blocks = s->nr_blocks,
				.words = s->words,
				.refs = s->refs,
				.insns = s->insns,
				.first_ticket = s->first_ticket,
				.last_ticket = s->last_ticket,
				.bytes = s->bytes,
			};
	}
	return 0;
}

int trace_info_read(const char *path, bool deep, struct trace_info *ret, char *err, size_t errlen)
{
	struct trace_source *s;
	int rc = trace_file_open(path, &s, err, errlen);

	if (rc)
		return rc;
	rc = fill(ret, (const struct trace_file *)(void *)s);
	if (!rc && deep) {
		ret->deep = true;
		rc = read_all(ret, s);
	}
	ret->damaged = s->damaged;
	memcpy(ret->error, s->error, sizeof(ret->error));
	s->ops->close(s);
	if (rc) {
		snprintf(err, errlen, "%s: %s", path, strerror(-rc));
		trace_info_done(ret);
	}
	return rc;
}

void trace_info_done(struct trace_info *i)
{
	free(i->command);
	free(i->recorder);
	free(i->streams);
	*i = (struct trace_info){ 0 };
}
