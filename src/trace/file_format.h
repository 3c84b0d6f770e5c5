/*
 * The bytes of a trace file (.qtr), version 1. All numbers are little-endian. docs/trace-format.md describes it in
 * prose.
 *
 *   header | metadata | block | block | ... | index mark | stream table | block offsets | trailer
 *
 * Every structure is 64 bytes and carries a hash of itself; a block's payload is hashed in the block's header. So a
 * reader that has lost the index walks from block to block, and any changed bit is noticed before anything is
 * believed.
 */
#ifndef QUIRE_TRACE_FILE_FORMAT_H
#define QUIRE_TRACE_FILE_FORMAT_H

#include <stdint.h>

#define QTR_MAGIC "\x89QTR\r\n\x1a\n" /* 8 bytes; like PNG's, it shows a transfer that changed line ends */
#define QTR_VERSION 1U
#define QTR_BLOCK_MAGIC 0x4b4c4251U /* "QBLK" */
#define QTR_INDEX_MAGIC 0x58444951U /* "QIDX" */
#define QTR_END_MAGIC 0x444e4551U /* "QEND" */

/* Limits that a reader enforces before it allocates or reads anything. */
#define QTR_MAX_META (64U << 10)
#define QTR_MAX_BLOCK_WORDS (64U << 10)
#define QTR_MAX_STREAMS (1U << 20)
/* What the writer makes of it: blocks of this many words, or fewer at the end of a stream. */
#define QTR_BLOCK_WORDS (32U << 10)
#define QTR_CODEC_PLANES 1U

struct qtr_header {
	char magic[8];
	uint32_t version;
	uint32_t header_bytes; /* of this structure: 64 */
	uint32_t meta_bytes; /* of the metadata that follows: text, lines of key=value */
	uint32_t reserved0;
	uint64_t start_unix_ns;
	uint64_t reserved[3];
	uint64_t hash; /* of the 56 bytes before and of the metadata, seed 0 */
};

struct qtr_block {
	uint32_t magic;
	uint32_t stream;
	uint32_t words;
	uint32_t bytes; /* of the payload that follows */
	uint32_t refs;
	uint32_t codec;
	uint64_t insns;
	uint64_t first_ticket, last_ticket; /* 0: the block has none */
	uint64_t payload_hash;
	uint64_t hash; /* of the 56 bytes before */
};

struct qtr_index {
	uint32_t magic;
	uint32_t nr_streams;
	uint64_t nr_blocks, words, refs, insns;
	uint64_t reserved[2];
	uint64_t hash;
};

/* One a stream, ascending; then nr_blocks offsets of 8 bytes each, the streams' one after another. */
struct qtr_stream {
	uint32_t stream;
	uint32_t reserved;
	uint64_t nr_blocks, words, refs, insns;
	uint64_t first_ticket, last_ticket;
	uint64_t bytes; /* of its payloads */
};

struct qtr_trailer {
	uint32_t magic;
	uint32_t nr_streams;
	uint64_t index_offset; /* of the index mark */
	uint64_t index_bytes; /* mark, table and offsets */
	uint64_t index_hash; /* of those bytes */
	uint64_t nr_blocks, refs, insns;
	uint64_t hash;
};

_Static_assert(sizeof(struct qtr_header) == 64, "file structures are 64 bytes");
_Static_assert(sizeof(struct qtr_block) == 64, "file structures are 64 bytes");
_Static_assert(sizeof(struct qtr_index) == 64, "file structures are 64 bytes");
_Static_assert(sizeof(struct qtr_stream) == 64, "file structures are 64 bytes");
_Static_assert(sizeof(struct qtr_trailer) == 64, "file structures are 64 bytes");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file's structures are read as they are");

#endif
