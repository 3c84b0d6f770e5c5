/*
 * The store between a program that is running and the engines that consume it: blocks go in through a sink, N cursors read them.
 * A block is kept until every cursor has passed it; beyond a limit of memory, blocks wait compressed in an unlinked
 * temporary file. The producer is slowed only while every cursor has something to read, so it can never deadlock.
 */
#ifndef QUIRE_TRACE_LIVE_H
#define QUIRE_TRACE_LIVE_H

#include "trace/source.h"
#include "trace/writer.h"

/* nr_cursors: how many cursors will be opened; blocks are kept until all have read them. */
int trace_live_create(unsigned nr_cursors, uint64_t memory_limit, struct trace_source **ret_source, struct trace_sink **ret_sink,
		      char *err, size_t errlen);
/* No more blocks will come. */
void trace_live_end(struct trace_source *s);

#endif
